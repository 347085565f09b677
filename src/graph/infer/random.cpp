// Operators that draw random numbers. Their results are row-major, but for dropout's.
#include "graph/infer/call.h"

namespace braze::graph {
namespace {

bool give_float_like(const InferCall& call, const TensorType& parameter) {
  if (!is_float(parameter.dtype)) return false;
  return call.give_fresh(parameter.sizes, parameter.dtype, parameter.device);
}

// mean, std, generator
bool normal_around(const InferCall& call) {
  return double_arg(call.list(), 1) >= 0 && give_float_like(call, call.tensor(0));
}

// mean, std, generator
bool normal_with(const InferCall& call) { return give_float_like(call, call.tensor(1)); }

// mean, std, generator
bool normal_of_two(const InferCall& call) {
  const TensorType &mean = call.tensor(0), &std = call.tensor(1);
  if (mean.dtype != std.dtype || !call.ask.all_equal(mean.sizes, std.sizes)) return false;
  return give_float_like(call, mean);
}

// self, ...
bool sample_of_each(const InferCall& call) { return give_float_like(call, call.tensor(0)); }

// input, p, train
bool native_dropout(const InferCall& call) {
  const TensorType& input = call.tensor(0);
  const double p = double_arg(call.list(), 1);
  if (!is_float(input.dtype) || !(p >= 0 && p <= 1)) return false;
  return call.give_like(input, input.dtype) && call.give_like(input, DType::kBool);
}

// seed, offset, size, dtype: of a counter, it draws nothing
bool random_by_counter(const InferCall& call) {
  const std::span<const sym::Int> sizes = call.dims(2);
  return call.give_fresh({sizes.begin(), sizes.end()}, call.dtype_or(3, DType::kFloat32),
                         call.tensor(0).device);
}

// increment, device: seed and offset of a generator
bool philox_state(const InferCall& call) {
  const auto* device = std::get_if<Device>(&call[1]);
  return device && call.give_fresh({sym::Int(2)}, DType::kInt64, *device);
}

// state, first, size, threshold, threads, pack: of a counter, it draws nothing
bool mask_by_counter(const InferCall& call) {
  const std::span<const sym::Int> sizes = call.dims(2);
  return call.give_fresh({sizes.begin(), sizes.end()}, DType::kBool, call.tensor(0).device);
}

constexpr InferEntry kRandomRules[] = {
    {"aten.normal.Tensor_float", normal_around},
    {"aten.normal.float_Tensor", normal_with},
    {"aten.normal.Tensor_Tensor", normal_of_two},
    {"aten.poisson", sample_of_each},
    {"aten._standard_gamma", sample_of_each},
    {"aten.native_dropout", native_dropout},
    {"braze.random", random_by_counter, InferUse::kPasses},
    {"braze.philox_state", philox_state, InferUse::kPasses},
    {"braze.philox_mask", mask_by_counter, InferUse::kPasses},
    // Computed on a contiguous copy, whatever PyTorch's own metadata has.
    {"aten.rrelu_with_noise", sample_of_each, InferUse::kAlways},
};

}  // namespace

std::span<const InferEntry> infer_random() { return kRandomRules; }

}  // namespace braze::graph
