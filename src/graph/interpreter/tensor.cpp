#include "graph/interpreter/tensor.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace braze::graph {
namespace {

float from_bfloat16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// One past the last element that the type reaches, from the beginning of the memory.
int64_t extent_of(const TensorType& type) {
  int64_t last = type.offset.constant();
  for (size_t i = 0; i < type.sizes.size(); ++i) {
    if (type.sizes[i].constant() == 0) return 0;
    last += (type.sizes[i].constant() - 1) * type.strides[i].constant();
  }
  return last + 1;
}

}  // namespace

Number convert(Number number, DType dtype) {
  auto integer = [&]() -> int64_t {
    if (!number.real) return number.i;
    return std::isfinite(number.f) && std::abs(number.f) < 9.2e18 ? static_cast<int64_t>(number.f)
                                                                  : INT64_MIN;
  };
  switch (dtype) {
    case DType::kBool:
      return Number::of(number.as_bool());
    case DType::kUInt8:
      return Number::of(int64_t{static_cast<uint8_t>(integer())});
    case DType::kInt8:
      return Number::of(int64_t{static_cast<int8_t>(integer())});
    case DType::kInt16:
      return Number::of(int64_t{static_cast<int16_t>(integer())});
    case DType::kInt32:
      return Number::of(int64_t{static_cast<int32_t>(integer())});
    case DType::kInt64:
      return Number::of(integer());
    case DType::kFloat16:
      return Number::of(double{
          static_cast<float>(static_cast<_Float16>(static_cast<float>(number.as_double())))});
    case DType::kBFloat16:
      return Number::of(double{from_bfloat16(to_bfloat16(static_cast<float>(number.as_double())))});
    case DType::kFloat32:
      return Number::of(double{static_cast<float>(number.as_double())});
    case DType::kFloat64:
      return Number::of(number.as_double());
    case DType::kComplex64:
    case DType::kComplex128:
      break;
  }
  BRAZE_UNREACHABLE("the interpreter has no complex numbers");
}

std::byte* Tensor::data() const { return memory->data(); }

std::byte* Tensor::address(std::span<const int64_t> index) const {
  int64_t element = type.offset.constant();
  for (size_t i = 0; i < index.size(); ++i) element += index[i] * type.strides[i].constant();
  return memory->data() + element * size_of(type.dtype);
}

Number Tensor::get(std::span<const int64_t> index) const {
  const std::byte* from = address(index);
  switch (type.dtype) {
    case DType::kBool:
      return Number::of(load<uint8_t>(from) != 0);
    case DType::kUInt8:
      return Number::of(int64_t{load<uint8_t>(from)});
    case DType::kInt8:
      return Number::of(int64_t{load<int8_t>(from)});
    case DType::kInt16:
      return Number::of(int64_t{load<int16_t>(from)});
    case DType::kInt32:
      return Number::of(int64_t{load<int32_t>(from)});
    case DType::kInt64:
      return Number::of(load<int64_t>(from));
    case DType::kFloat16:
      return Number::of(double{static_cast<float>(load<_Float16>(from))});
    case DType::kBFloat16:
      return Number::of(double{from_bfloat16(load<uint16_t>(from))});
    case DType::kFloat32:
      return Number::of(double{load<float>(from)});
    case DType::kFloat64:
      return Number::of(load<double>(from));
    case DType::kComplex64:
    case DType::kComplex128:
      break;
  }
  BRAZE_UNREACHABLE("the interpreter has no complex numbers");
}

void Tensor::set(std::span<const int64_t> index, Number value) {
  std::byte* to = address(index);
  value = convert(value, type.dtype);
  switch (type.dtype) {
    case DType::kBool:
    case DType::kUInt8:
      return store(to, static_cast<uint8_t>(value.i));
    case DType::kInt8:
      return store(to, static_cast<int8_t>(value.i));
    case DType::kInt16:
      return store(to, static_cast<int16_t>(value.i));
    case DType::kInt32:
      return store(to, static_cast<int32_t>(value.i));
    case DType::kInt64:
      return store(to, value.i);
    case DType::kFloat16:
      return store(to, static_cast<_Float16>(static_cast<float>(value.f)));
    case DType::kBFloat16:
      return store(to, to_bfloat16(static_cast<float>(value.f)));
    case DType::kFloat32:
      return store(to, static_cast<float>(value.f));
    case DType::kFloat64:
      return store(to, value.f);
    case DType::kComplex64:
    case DType::kComplex128:
      break;
  }
  BRAZE_UNREACHABLE("the interpreter has no complex numbers");
}

std::vector<Number> Tensor::numbers() const {
  std::vector<Number> all;
  for_each_index(type.sizes, [&](std::span<const int64_t> index) { all.push_back(get(index)); });
  return all;
}

Tensor make_tensor(TensorType type) {
  const int64_t bytes = extent_of(type) * size_of(type.dtype);
  return {std::move(type), std::make_shared<std::vector<std::byte>>(bytes)};
}

Tensor view_of(const Tensor& tensor, TensorType type) {
  const int64_t bytes = extent_of(type) * size_of(type.dtype);
  BRAZE_CHECK(bytes <= static_cast<int64_t>(tensor.memory->size()), "a view ", to_string(type),
              " reaches outside of its tensor's memory");
  return {std::move(type), tensor.memory};
}

}  // namespace braze::graph
