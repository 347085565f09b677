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

// Whether the parameters that are given are of one dtype that kernels take for an input of this
// dtype.
bool have_common_dtype(const InferCall& call, std::initializer_list<int> parameters) {
  const DType dtype = call.tensor(1).dtype;
  std::optional<DType> common;
  for (const int i : parameters) {
    const TensorType* parameter = call.optional(i);
    if (!parameter) continue;
    if (common.value_or(parameter->dtype) != parameter->dtype) return false;
    common = parameter->dtype;
  }
  return !common || common == dtype || (is_half(dtype) && common == DType::kFloat32);
}

// The gradients of weight and bias, fresh and of the weight's dtype. Without a weight nothing asks
// for them.
bool give_parameter_gradients(const InferCall& call, const TensorType* weight,
                              std::span<const Int> sizes, const std::vector<bool>& asked_for) {
  for (const int i : {1, 2}) {
    if (!asked_for.at(i)) {
      call.give_undefined();
    } else {
      if (!weight) return false;
      call.give_fresh({sizes.begin(), sizes.end()}, weight->dtype, weight->device);
    }
  }
  return true;
}

// Gradient and input, arguments 0 and 1.
bool are_gradient_and_input(const InferCall& call) {
  const TensorType &grad = call.tensor(0), &input = call.tensor(1);
  return grad.dtype == input.dtype && is_float(input.dtype) &&
         call.ask.all_fit(grad.sizes, input.sizes) && !call.ask.equal(input.numel(), 0);
}

bool is_of_channels(const InferCall& call, const TensorType* parameter, const Int& channels) {
  return !parameter || (parameter->rank() == 1 && call.ask.fit(parameter->sizes[0], channels));
}

// grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask
bool layer_norm_backward(const InferCall& call) {
  const TensorType& input = call.tensor(1);
  const std::span<const Int> normalized = call.dims(2);
  const std::vector<bool>& asked_for = call.bools(7);
  if (!are_gradient_and_input(call) || normalized.empty() ||
      normalized.size() > input.sizes.size() || !have_common_dtype(call, {5, 6}) ||
      !call.ask.all_fit(std::span(input.sizes).last(normalized.size()), normalized))
    return false;
  for (const int i : {5, 6})
    if (const TensorType* parameter = call.optional(i))
      if (!call.ask.all_fit(parameter->sizes, normalized)) return false;
  if (asked_for.at(0))
    call.give_fresh(input.sizes, input.dtype, input.device);
  else
    call.give_undefined();
  return give_parameter_gradients(call, call.optional(5), normalized, asked_for);
}

// grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps,
// output_mask
bool batch_norm_backward(const InferCall& call) {
  const TensorType& input = call.tensor(1);
  const std::vector<bool>& asked_for = call.bools(9);
  if (input.rank() < 2 || !are_gradient_and_input(call) || !have_common_dtype(call, {2, 3, 4}))
    return false;
  for (const int i : {2, 3, 4})
    if (!is_of_channels(call, call.optional(i), input.sizes[1])) return false;
  // What is dense in no format is copied to the one that its strides suggest. What is in several,
  // or in one that they do not show, becomes this or that.
  auto format = plain_format(input, call.ask);
  if (!format) {
    for (const MemoryFormat dense :
         {MemoryFormat::kContiguous, MemoryFormat::kChannelsLast, MemoryFormat::kChannelsLast3d})
      if (is_dense_in_format(input, dense, call.ask)) return false;
    format = suggested_format(input, call.ask);
  }
  if (asked_for.at(0))
    call.give_in_format(input.sizes, *format, input.dtype, input.device);
  else
    call.give_undefined();
  return give_parameter_gradients(call, call.optional(2), {&input.sizes[1], 1}, asked_for);
}

// grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask
bool group_norm_backward(const InferCall& call) {
  const TensorType& input = call.tensor(1);
  const std::vector<bool>& asked_for = call.bools(9);
  const auto format = plain_format(input, call.ask);
  if (input.rank() < 2 || !format || !are_gradient_and_input(call) ||
      !have_common_dtype(call, {4}) ||
      plain_format(call.tensor(0), call.ask) != format ||  // an error
      !call.ask.fit(input.sizes[0], sym_arg(call.list(), 5)) ||
      !call.ask.fit(input.sizes[1], sym_arg(call.list(), 6)) ||
      !is_of_channels(call, call.optional(4), input.sizes[1]))
    return false;
  if (asked_for.at(0))
    call.give_in_format(input.sizes, *format, input.dtype, input.device);
  else
    call.give_undefined();
  return give_parameter_gradients(call, call.optional(4), {&input.sizes[1], 1}, asked_for);
}

constexpr InferEntry kNormalisationRules[] = {
    {"aten.native_layer_norm_backward", layer_norm_backward, InferUse::kAlways},
    {"aten.native_batch_norm_backward", batch_norm_backward, InferUse::kAlways},
    {"aten.native_group_norm_backward", group_norm_backward, InferUse::kAlways},
    {"aten.native_layer_norm", layer_norm, InferUse::kAlways},
    {"aten.native_batch_norm", batch_norm, InferUse::kAlways},
    {"aten._native_batch_norm_legit", batch_norm, InferUse::kAlways},
    {"aten._native_batch_norm_legit_functional", functional_batch_norm, InferUse::kPasses},
    {"aten.native_group_norm", group_norm, InferUse::kAlways},
};

}  // namespace

std::span<const InferEntry> infer_normalisation() { return kNormalisationRules; }

}  // namespace braze::graph
