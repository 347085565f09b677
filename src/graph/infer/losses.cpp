// Losses and their gradients.
#include "graph/infer/call.h"

namespace braze::graph {
namespace {

constexpr int kNoReduction = 0;  // at::Reduction::None

// Two tensors of one dtype and of the same sizes.
bool are_alike(const InferCall& call, int first, int second) {
  const TensorType &a = call.tensor(first), &b = call.tensor(second);
  return is_float(a.dtype) && a.dtype == b.dtype && call.ask.all_fit(a.sizes, b.sizes);
}

bool give_scalar(const InferCall& call, const TensorType& like) {
  return call.give_fresh({}, like.dtype, like.device);
}

// Whether a gradient is that of a loss of these sizes: of one for each element, or of their sum.
bool is_gradient_of(const InferCall& call, const TensorType& grad, std::span<const sym::Int> sizes,
                    int64_t reduction) {
  return grad.rank() == 0 || (reduction == kNoReduction && call.ask.all_fit(grad.sizes, sizes));
}

// self, target, then the reduction, an argument of the position given.
template <int reduction_position>
bool loss_like_self(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  if (!are_alike(call, 0, 1)) return false;
  return int_arg(call.list(), reduction_position) == kNoReduction ? call.give_like(self, self.dtype)
                                                                  : give_scalar(call, self);
}

// self, target, weight, reduction
bool binary_cross_entropy(const InferCall& call) {
  return call.absent(2) && loss_like_self<3>(call);
}

// grad_output, self, target, weight, reduction
bool binary_cross_entropy_backward(const InferCall& call) {
  const TensorType &grad = call.tensor(0), &self = call.tensor(1);
  return call.absent(3) && grad.dtype == self.dtype && are_alike(call, 1, 2) &&
         is_gradient_of(call, grad, self.sizes, int_arg(call.list(), 4)) &&
         call.give_like(self, self.dtype);
}

// grad_output, self, target, reduction, ...: row-major whatever comes in.
bool row_major_gradient(const InferCall& call) {
  const TensorType &grad = call.tensor(0), &self = call.tensor(1);
  return grad.dtype == self.dtype && are_alike(call, 1, 2) &&
         is_gradient_of(call, grad, self.sizes, int_arg(call.list(), 3)) &&
         call.give_fresh(self.sizes, self.dtype, self.device);
}

// The sizes of a target of images, one class for each place; nothing for what is an error or empty.
std::optional<sym::Dims> places_of(const InferCall& call, int first) {
  const TensorType &self = call.tensor(first), &target = call.tensor(first + 1);
  const TensorType* weight = call.optional(first + 2);
  if (self.rank() != 4 || target.rank() != 3 || !is_float(self.dtype)) return std::nullopt;
  for (const sym::Int& size : self.sizes)
    if (call.ask.less(size, 1)) return std::nullopt;
  sym::Dims places{self.sizes[0], self.sizes[2], self.sizes[3]};
  if (!call.ask.all_fit(target.sizes, places)) return std::nullopt;
  if (weight && (weight->dtype != self.dtype || weight->rank() != 1 ||
                 !call.ask.fit(weight->sizes[0], self.sizes[1])))
    return std::nullopt;
  return places;
}

// self, target, weight, reduction, ignore_index
bool nll_loss2d(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  auto places = places_of(call, 0);
  if (!places) return false;
  if (int_arg(call.list(), 3) == kNoReduction)
    call.give_fresh(std::move(*places), self.dtype, self.device);
  else
    give_scalar(call, self);
  return give_scalar(call, self);
}

// grad_output, self, target, weight, reduction, ...; an error where memory like that of `self` is
// not contiguous.
bool nll_loss2d_backward(const InferCall& call) {
  const TensorType &grad = call.tensor(0), &self = call.tensor(1);
  const auto places = places_of(call, 1);
  if (!places || grad.dtype != self.dtype ||
      !is_gradient_of(call, grad, *places, int_arg(call.list(), 4)))
    return false;
  const sym::Dims strides = like_strides(self, MemoryFormat::kPreserve, call.ask);
  const sym::Dims contiguous = row_major_strides(self.sizes, call.ask);
  for (size_t i = 0; i < strides.size(); ++i)
    if (!call.ask.equal(self.sizes[i], 1) && !call.ask.equal(strides[i], contiguous[i]))
      return false;
  return call.give_like(self, self.dtype);
}

constexpr InferEntry kLossesRules[] = {
    {"aten.mse_loss_backward", row_major_gradient, InferUse::kAlways},
    {"aten.smooth_l1_loss_backward", row_major_gradient, InferUse::kAlways},
    {"aten.huber_loss_backward", row_major_gradient, InferUse::kAlways},
    {"aten.huber_loss", loss_like_self<2>, InferUse::kAlways},
    {"aten.binary_cross_entropy", binary_cross_entropy, InferUse::kAlways},
    {"aten.binary_cross_entropy_backward", binary_cross_entropy_backward, InferUse::kAlways},
    {"aten.nll_loss2d_forward", nll_loss2d, InferUse::kAlways},
    {"aten.nll_loss2d_backward", nll_loss2d_backward, InferUse::kAlways},
};

}  // namespace

std::span<const InferEntry> infer_losses() { return kLossesRules; }

}  // namespace braze::graph
