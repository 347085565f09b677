#include "runtime/random_operator.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <string>

#include "base/log.h"
#include "base/philox.h"
#include "runtime/cuda/generator.h"

namespace braze::runtime {
namespace {

bool is_wide(at::ScalarType dtype) { return c10::elementSize(dtype) == 8; }

// Bits of the significand of a float dtype, the one that is not stored included.
int digits_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return 11;
    case at::kBFloat16:
      return 8;
    case at::kFloat:
      return 24;
    default:
      return 53;
  }
}

void check(const at::Tensor& seed, at::ScalarType dtype) {
  TORCH_CHECK(seed.dim() == 0 && seed.scalar_type() == at::kLong,
              "braze::random: the seed is an int64 tensor without dimensions");
  const bool known = dtype == at::kHalf || dtype == at::kBFloat16 || dtype == at::kFloat ||
                     dtype == at::kDouble || dtype == at::kInt || dtype == at::kLong;
  TORCH_CHECK(known, "braze::random: no numbers of dtype ", dtype);
}

uint64_t word_of(uint64_t key, uint64_t offset, uint64_t element) {
  return philox(key, offset, element / 64 * 16 + element % 16)[element / 16 % 4];
}

// The numbers as the wide ones are made: of a tensor that is then converted, without rounding.
template <class T, class F>
at::Tensor filled(at::IntArrayRef size, at::ScalarType dtype, F&& number) {
  at::Tensor result = at::empty(size, at::TensorOptions(c10::CppTypeToScalarType<T>::value));
  T* data = result.mutable_data_ptr<T>();
  for (int64_t i = 0; i < result.numel(); ++i) data[i] = number(static_cast<uint64_t>(i));
  return result.to(dtype);
}

at::Tensor random_cpu(const at::Tensor& seed, int64_t offset, at::IntArrayRef size,
                      at::ScalarType dtype) {
  check(seed, dtype);
  const auto key = static_cast<uint64_t>(*seed.const_data_ptr<int64_t>());
  const auto stream = static_cast<uint64_t>(offset);
  const auto both = [&](uint64_t element) {
    return std::array{word_of(key, stream, element), word_of(key, stream + 1, element)};
  };
  if (dtype == at::kInt)
    return filled<int32_t>(size, dtype, [&](uint64_t element) {
      return static_cast<int32_t>(word_of(key, stream, element));
    });
  if (dtype == at::kLong)
    return filled<int64_t>(size, dtype, [&](uint64_t element) {
      const auto [low, high] = both(element);
      return static_cast<int64_t>(high << 32 | low);
    });
  if (dtype == at::kDouble)
    return filled<double>(size, dtype, [&](uint64_t element) {
      const auto [high, low] = both(element);
      return static_cast<double>((high >> 5) << 26 | low >> 6) * 0x1p-53;
    });
  const int digits = digits_of(dtype);
  return filled<float>(size, dtype, [&](uint64_t element) {
    return std::ldexp(static_cast<float>(word_of(key, stream, element) >> (32 - digits)), -digits);
  });
}

// What follows is the same by operators, for other devices. Words are in int64, at most 2^32 - 1.
constexpr int64_t kLow = 0xffffffff;

at::Tensor high_half(const at::Tensor& product) {
  return product.bitwise_right_shift(32).bitwise_and(kLow);
}

// Word `chosen` (0 to 3) of a counter.
at::Tensor philox_words(const at::Tensor& key, const at::Tensor& offset,
                        const at::Tensor& subsequence, const at::Tensor& chosen) {
  std::array<at::Tensor, 4> word = {offset.bitwise_and(kLow), high_half(offset),
                                    subsequence.bitwise_and(kLow), high_half(subsequence)};
  at::Tensor key0 = key.bitwise_and(kLow), key1 = high_half(key);
  for (int round = 0; round < 10; ++round) {
    const at::Tensor first = word[0].mul(int64_t{0xd2511f53});
    const at::Tensor second = word[2].mul(int64_t{0xcd9e8d57});
    word = {high_half(second).bitwise_xor(word[1]).bitwise_xor(key0), second.bitwise_and(kLow),
            high_half(first).bitwise_xor(word[3]).bitwise_xor(key1), first.bitwise_and(kLow)};
    key0 = key0.add(int64_t{0x9e3779b9}).bitwise_and(kLow);
    key1 = key1.add(int64_t{0xbb67ae85}).bitwise_and(kLow);
  }
  at::Tensor result = word[3];
  for (int i = 2; i >= 0; --i) result = at::where(chosen.eq(i), word[i], result);
  return result;
}

at::Tensor words(const at::Tensor& seed, int64_t offset, const at::Tensor& element) {
  const at::Tensor counter = element.bitwise_right_shift(6).mul(16).add(element.bitwise_and(15));
  return philox_words(seed, at::full_like(counter, offset), counter,
                      element.bitwise_right_shift(4).bitwise_and(3));
}

at::Tensor random_elsewhere(const at::Tensor& seed, int64_t offset, at::IntArrayRef size,
                            at::ScalarType dtype) {
  check(seed, dtype);
  const at::Tensor element = at::arange(c10::multiply_integers(size), seed.options());
  const at::Tensor first = words(seed, offset, element);
  at::Tensor result;
  if (dtype == at::kInt) {
    result = first;
  } else if (!is_wide(dtype)) {
    const int digits = digits_of(dtype);
    result = first.bitwise_right_shift(32 - digits).to(at::kFloat).mul(std::ldexp(1.0, -digits));
  } else {
    const at::Tensor second = words(seed, offset + 1, element);
    result = dtype == at::kLong ? second.bitwise_left_shift(32).bitwise_or(first)
                                : first.bitwise_right_shift(5)
                                      .bitwise_left_shift(26)
                                      .bitwise_or(second.bitwise_right_shift(6))
                                      .to(at::kDouble)
                                      .mul(0x1p-53);
  }
  return result.to(dtype).reshape(size);
}

// For a trace of a graph that has it.
at::Tensor random_meta(const at::Tensor& seed, int64_t, at::IntArrayRef size,
                       at::ScalarType dtype) {
  return at::empty(size, seed.options().dtype(dtype));
}

void check_mask(const at::Tensor& state, int64_t threads, int64_t pack) {
  TORCH_CHECK(state.dim() == 1 && state.size(0) == 2 && state.scalar_type() == at::kLong,
              "braze::philox_mask: the state is an int64 tensor of seed and offset");
  TORCH_CHECK(threads > 0 && (pack == 4 || pack == 8),
              "braze::philox_mask: packs of 4 or 8 elements, of one thread and more");
}

// As loop::mask_word.
at::Tensor mask_cpu(const at::Tensor& state, int64_t first, at::IntArrayRef size, int64_t threshold,
                    int64_t threads, int64_t pack) {
  check_mask(state, threads, pack);
  const at::Tensor both = state.contiguous();
  const auto key = static_cast<uint64_t>(both.const_data_ptr<int64_t>()[0]);
  const int64_t offset = both.const_data_ptr<int64_t>()[1] / 4 + first;
  at::Tensor result = at::empty(size, at::TensorOptions(at::kBool));
  bool* data = result.mutable_data_ptr<bool>();
  for (int64_t i = 0; i < result.numel(); ++i) {
    const int64_t thread = i / pack % threads, round = i / pack / threads;
    const int64_t counter = offset + round * (pack / 4) + i % pack / 4;
    const uint32_t word =
        philox(key, static_cast<uint64_t>(counter), static_cast<uint64_t>(thread))[i % 4];
    data[i] = word < static_cast<uint64_t>(threshold);
  }
  return result;
}

at::Tensor mask_elsewhere(const at::Tensor& state, int64_t first, at::IntArrayRef size,
                          int64_t threshold, int64_t threads, int64_t pack) {
  check_mask(state, threads, pack);
  const at::Tensor element = at::arange(c10::multiply_integers(size), state.options());
  const at::Tensor group = element.floor_divide(pack);
  const at::Tensor counter = state[1]
                                 .bitwise_right_shift(2)
                                 .add(first)
                                 .add(group.floor_divide(threads).mul(pack / 4))
                                 .add(element.remainder(pack).floor_divide(4));
  return philox_words(state[0], counter, group.remainder(threads), element.remainder(4))
      .lt(threshold)
      .reshape(size);
}

at::Tensor mask_meta(const at::Tensor& state, int64_t, at::IntArrayRef size, int64_t, int64_t,
                     int64_t) {
  return at::empty(size, state.options().dtype(at::kBool));
}

// The call runs again in eager then, which only a log can tell.
void refuse_unaligned(at::TensorList tensors) {
  constexpr uintptr_t kBytes = 16;
  constexpr const char* kWhy =
      "dropout of a tensor that does not begin at a multiple of 16 bytes draws in another order";
  for (const at::Tensor& tensor : tensors) {
    if (reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % kBytes == 0) continue;
    if (log::enabled(log::Component::kBreaks))
      log::write(log::Component::kBreaks, std::string("this call runs in eager: ") + kWhy);
    TORCH_CHECK(false, kWhy);
  }
}

}  // namespace

void register_random_operator() {
  static const bool done = [] {
    static torch::Library library(torch::Library::FRAGMENT, "braze", std::nullopt, __FILE__,
                                  __LINE__);
    library.def("random(Tensor seed, int offset, SymInt[] size, ScalarType dtype) -> Tensor");
    library.impl("random", torch::dispatch(c10::DispatchKey::CPU, random_cpu));
    library.impl("random", torch::dispatch(c10::DispatchKey::CUDA, random_elsewhere));
    library.impl("random", torch::dispatch(c10::DispatchKey::Meta, random_meta));
    library.def("philox_state(int increment, Device device) -> Tensor");
    library.impl("philox_state", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd,
                                                 cuda::advance_generator));
    library.def(
        "philox_mask(Tensor state, int first, SymInt[] size, int threshold, int threads, int pack) "
        "-> Tensor");
    library.impl("philox_mask", torch::dispatch(c10::DispatchKey::CPU, mask_cpu));
    library.impl("philox_mask", torch::dispatch(c10::DispatchKey::CUDA, mask_elsewhere));
    library.impl("philox_mask", torch::dispatch(c10::DispatchKey::Meta, mask_meta));
    library.def("refuse_unaligned(Tensor[] tensors) -> ()");
    library.impl("refuse_unaligned", torch::dispatch(c10::DispatchKey::CPU, refuse_unaligned));
    library.impl("refuse_unaligned", torch::dispatch(c10::DispatchKey::CUDA, refuse_unaligned));
    return true;
  }();
  (void)done;
}

}  // namespace braze::runtime
