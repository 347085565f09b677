// Layer, batch and group normalisation. PyTorch's metadata functions for them are Python.
#include <initializer_list>

#include "graph/infer/call.h"

namespace braze::graph {
namespace {

using sym::Int;

bool is_on_gpu(const TensorType& type) { return type.device.type == Device::Type::kCUDA; }

// Statistics of half-precision inputs are kept in float when the parameters are float.
DType statistics_dtype(const InferCall& call, std::initializer_list<int> parameters) {
  const DType dtype = call.tensor(0).dtype;
  if (is_half(dtype))
    for (const int i : parameters)
      if (const TensorType* parameter = call.optional(i))
        if (parameter->dtype == DType::kFloat32) return DType::kFloat32;
  return dtype;
}

// The same of layer and batch norm: the kernels of a GPU keep them in float always.
DType accumulated_dtype(const InferCall& call, std::initializer_list<int> parameters) {
  const TensorType& input = call.tensor(0);
  if (is_on_gpu(input) && is_half(input.dtype)) return DType::kFloat32;
  return statistics_dtype(call, parameters);
}

// input, normalized_shape, weight, bias, eps
bool layer_norm(const InferCall& call) {
  const TensorType& input = call.tensor(0);
  const std::span<const Int> normalized = call.dims(1);
  sym::Dims statistics = input.sizes;
  if (normalized.empty() || normalized.size() > statistics.size()) return false;  // an error
  const size_t first = statistics.size() - normalized.size();
  for (size_t i = first; i < statistics.size(); ++i) {
    if (!call.ask.fit(statistics[i], normalized[i - first])) return false;
    statistics[i] = 1;
  }
  for (const int i : {2, 3})
    if (const TensorType* parameter = call.optional(i))
      if (!call.ask.all_fit(parameter->sizes, normalized)) return false;
  const DType dtype = accumulated_dtype(call, {2, 3});
  return call.give_fresh(input.sizes, input.dtype, input.device) &&
         call.give_fresh(statistics, dtype, input.device) &&
         call.give_fresh(std::move(statistics), dtype, input.device);
}

// input, weight, bias, running_mean, running_var, training, momentum, eps
bool batch_norm(const InferCall& call) {
  const TensorType& input = call.tensor(0);
  if (input.rank() < 2) return false;
  const auto format = plain_format(input, call.ask);
  if (!format) return false;
  for (const int i : {1, 2, 3, 4})
    if (const TensorType* parameter = call.optional(i))
      if (parameter->rank() != 1 || !call.ask.fit(parameter->sizes[0], input.sizes[1]))
        return false;
  const bool training = bool_arg(call.list(), 5);
  const Int channels = training || is_on_gpu(input) ? input.sizes[1] : Int(0);
  const DType dtype = accumulated_dtype(call, {1, 2, 3, 4});
  return call.give_in_format(input.sizes, *format, input.dtype, input.device) &&
         call.give_fresh({channels}, dtype, input.device) &&
         call.give_fresh({channels}, dtype, input.device);
}

// The same arguments; the new running statistics are results.
bool functional_batch_norm(const InferCall& call) {
  const TensorType& input = call.tensor(0);
  const DType dtype = accumulated_dtype(call, {1, 2, 3, 4});
  const Int channels = input.sizes.at(1);
  return call.give_like(input, input.dtype) && call.give_fresh({channels}, dtype, input.device) &&
         call.give_fresh({channels}, dtype, input.device) && call.give(call.tensor(3)) &&
         call.give(call.tensor(4));
}

// input, weight, bias, N, C, HxW, group, eps
bool group_norm(const InferCall& call) {
  const TensorType& input = call.tensor(0);
  const auto format = plain_format(input, call.ask);
  if (!format) return false;
  const Int images = sym_arg(call.list(), 3), channels = sym_arg(call.list(), 4);
  const Int groups = sym_arg(call.list(), 6);
  if (call.ask.less(groups, 1) || !call.ask.fit(sym::mod(channels, groups), 0) ||
      !call.ask.fit(input.numel(), images * channels * sym_arg(call.list(), 5)))
    return false;  // an error
  for (const int i : {1, 2})
    if (const TensorType* parameter = call.optional(i))
      if (parameter->rank() != 1 || !call.ask.fit(parameter->sizes[0], channels)) return false;
  const DType dtype = statistics_dtype(call, {1, 2});
  return call.give_in_format(input.sizes, *format, input.dtype, input.device) &&
         call.give_fresh({images, groups}, dtype, input.device) &&
         call.give_fresh({images, groups}, dtype, input.device);
}

constexpr InferEntry kRules[] = {
    {"aten.native_layer_norm", layer_norm, InferUse::kAlways},
    {"aten.native_batch_norm", batch_norm, InferUse::kAlways},
    {"aten._native_batch_norm_legit", batch_norm, InferUse::kAlways},
    {"aten._native_batch_norm_legit_functional", functional_batch_norm, InferUse::kPasses},
    {"aten.native_group_norm", group_norm, InferUse::kAlways},
};

}  // namespace

std::span<const InferEntry> infer_normalisation() { return kRules; }

}  // namespace braze::graph
