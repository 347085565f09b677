// Activations that have only a Python function for metadata, and their gradients.
#include "graph/infer/call.h"

namespace braze::graph {
namespace {

// Allocated by empty_like.
// grad_output, self, dim
bool glu_backward(const InferCall& call) {
  const TensorType &grad = call.tensor(0), &self = call.tensor(1);
  const auto dim = call.dim(2, self.rank());
  if (self.rank() == 0 || !dim || grad.dtype != self.dtype) return false;
  sym::Dims sizes = grad.sizes;
  if (grad.rank() != self.rank()) return false;
  sizes[*dim] = sizes[*dim] * 2;
  return call.ask.all_fit(sizes, self.sizes) &&
         call.give_fresh(self.sizes, self.dtype, self.device);
}

// Arguments 0 and 1.
bool are_of_one_kind(const InferCall& call) {
  const TensorType &a = call.tensor(0), &b = call.tensor(1);
  return a.dtype == b.dtype && is_float(a.dtype) && call.ask.all_fit(a.sizes, b.sizes);
}

// grad_output, self, numbers
bool elementwise_backward(const InferCall& call) {
  const TensorType* operands[] = {&call.tensor(0), &call.tensor(1)};
  return are_of_one_kind(call) && call.give_elementwise(operands, operands[0]->dtype);
}

// grad_output, self, numbers: of two layouts that of `self` decides.
bool backward_by_self(const InferCall& call) {
  const TensorType* operands[] = {&call.tensor(1), &call.tensor(0)};
  return are_of_one_kind(call) && call.give_elementwise(operands, operands[0]->dtype);
}

// grad_output, numbers, is_result, self or the result
bool elu_backward(const InferCall& call) {
  const TensorType* operands[] = {&call.tensor(0), &call.tensor(5)};
  return operands[0]->dtype == operands[1]->dtype && is_float(operands[0]->dtype) &&
         call.ask.all_fit(operands[0]->sizes, operands[1]->sizes) &&
         call.give_elementwise(operands, operands[0]->dtype);
}

bool hardtanh(const InferCall& call) { return is_float(call.tensor(0).dtype) && like_self(call); }

bool hardswish(const InferCall& call) {
  const TensorType* operands[] = {&call.tensor(0)};
  return is_float(operands[0]->dtype) && call.give_elementwise(operands, operands[0]->dtype);
}

// self. The second result is the exponential that a backward takes, which a GPU does not keep.
bool log_sigmoid(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  if (!is_float(self.dtype) || self.device.type != Device::Type::kCPU) return false;
  return call.give_fresh(self.sizes, self.dtype, self.device) &&
         call.give_fresh(self.sizes, self.dtype, self.device);
}

// grad_output, self, buffer
bool log_sigmoid_backward(const InferCall& call) {
  return are_of_one_kind(call) && like_self(call);
}

bool fits_into(const InferCall& call, const TensorType& self, const TensorType& weight) {
  const TensorType* operands[] = {&self, &weight};
  const auto sizes = try_broadcast(operands, call.ask);
  return is_float(self.dtype) && weight.dtype == self.dtype && sizes &&
         call.ask.all_fit(*sizes, self.sizes);
}

// self, weight
bool prelu(const InferCall& call) {
  return fits_into(call, call.tensor(0), call.tensor(1)) && like_self(call);
}

// grad_output, self, weight: the gradients of both, the latter not summed up yet.
bool prelu_backward(const InferCall& call) {
  const TensorType &grad = call.tensor(0), &self = call.tensor(1), &weight = call.tensor(2);
  const TensorType* operands[] = {&self, &weight, &grad};
  return are_of_one_kind(call) && fits_into(call, self, weight) &&
         call.give_elementwise(operands, self.dtype) && call.give_elementwise(operands, self.dtype);
}

constexpr InferEntry kActivationsRules[] = {
    {"aten.glu_backward", glu_backward, InferUse::kAlways},
    {"aten.hardtanh", hardtanh, InferUse::kAlways},
    {"aten.hardtanh_backward", elementwise_backward, InferUse::kAlways},
    {"aten.hardswish", hardswish, InferUse::kAlways},
    {"aten.hardswish_backward", elementwise_backward, InferUse::kAlways},
    {"aten.elu_backward", elu_backward, InferUse::kAlways},
    {"aten.hardshrink_backward", elementwise_backward, InferUse::kAlways},
    {"aten.softshrink_backward", elementwise_backward, InferUse::kAlways},
    {"aten.hardsigmoid_backward", elementwise_backward, InferUse::kAlways},
    {"aten.leaky_relu_backward", backward_by_self, InferUse::kAlways},
    {"aten.threshold_backward", backward_by_self, InferUse::kAlways},
    {"aten.softplus_backward", elementwise_backward, InferUse::kAlways},
    {"aten.log_sigmoid_forward", log_sigmoid, InferUse::kAlways},
    {"aten.log_sigmoid_backward", log_sigmoid_backward, InferUse::kAlways},
    {"aten._prelu_kernel", prelu, InferUse::kAlways},
    {"aten._prelu_kernel_backward", prelu_backward, InferUse::kAlways},
};

}  // namespace

std::span<const InferEntry> infer_activations() { return kActivationsRules; }

}  // namespace braze::graph
