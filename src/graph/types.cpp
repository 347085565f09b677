#include "graph/types.h"

#include <algorithm>

namespace braze::graph {

std::string_view to_string(DType dtype) {
  constexpr std::string_view table[] = {
#define X(name, text, bytes, kind) text,
      BRAZE_DTYPES(X)
#undef X
  };
  return table[static_cast<int>(dtype)];
}

std::optional<DType> parse_dtype(std::string_view text) {
#define X(name, spelling, bytes, kind) \
  if (text == spelling) return DType::k##name;
  BRAZE_DTYPES(X)
#undef X
  return std::nullopt;
}

std::string to_string(Device device) {
  std::string text;
  switch (device.type) {
    case Device::Type::kCPU:
      text = "cpu";
      break;
    case Device::Type::kCUDA:
      text = "cuda";
      break;
    case Device::Type::kMeta:
      text = "meta";
      break;
  }
  return device.index < 0 ? text : text + ":" + std::to_string(device.index);
}

bool TensorType::is_contiguous() const {
  if (std::find(sizes.begin(), sizes.end(), sym::Int(0)) != sizes.end()) return true;
  sym::Int expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == sym::Int(1)) continue;
    if (strides[i] != expected) return false;
    expected = expected * sizes[i];
  }
  return true;
}

int64_t extent_bytes(const TensorType& type) {
  int64_t last = 0, bytes = 0;
  for (size_t i = 0; i < type.sizes.size(); ++i) {
    const int64_t size = type.sizes[i].constant(), stride = type.strides[i].constant();
    BRAZE_CHECK(size >= 0 && stride >= 0, "negative size or stride in ", to_string(type));
    if (size == 0) return 0;
    int64_t span = 0;
    BRAZE_CHECK(!__builtin_mul_overflow(size - 1, stride, &span) &&
                    !__builtin_add_overflow(last, span, &last),
                "sizes overflow in ", to_string(type));
  }
  BRAZE_CHECK(!__builtin_add_overflow(last, 1, &last) &&
                  !__builtin_mul_overflow(last, size_of(type.dtype), &bytes),
              "sizes overflow in ", to_string(type));
  return bytes;
}

namespace {
std::string join(std::span<const sym::Int> dims) {
  std::string text;
  for (size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + sym::to_string(dims[i]);
  return text;
}
}  // namespace

std::string to_string(const TensorType& type) {
  std::string text = std::string(to_string(type.dtype)) + "[" + join(type.sizes) + "]";
  if (type.strides != sym::contiguous_strides(type.sizes)) text += "{" + join(type.strides) + "}";
  if (type.offset != sym::Int(0)) text += "+" + sym::to_string(type.offset);
  if (type.device != Device{}) text += "@" + to_string(type.device);
  return text;
}

}  // namespace braze::graph
