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

// self, target, then the reduction: a loss for each element, or one.
bool elementwise_loss(const InferCall& call) {
  const TensorType* operands[] = {&call.tensor(0), &call.tensor(1)};
  const DType dtype = operands[0]->dtype;
  if (!is_float(dtype) || operands[1]->dtype != dtype) return false;
  if (int_arg(call.list(), 2) == kNoReduction) return call.give_elementwise(operands, dtype);
  return try_broadcast(operands, call.ask) && give_scalar(call, *operands[0]);
}

// self, target, weight, reduction
bool binary_cross_entropy(const InferCall& call) {
  return call.absent(2) && loss_like_self<3>(call);
}

// self, target, weight, pos_weight, reduction. It begins with ones like the target.
bool binary_cross_entropy_of_logits(const InferCall& call) {
  const TensorType& target = call.tensor(1);
  if (!are_alike(call, 0, 1)) return false;
  for (const int i : {2, 3}) {
    const TensorType* weight = call.optional(i);
    if (!weight) continue;
    const TensorType* operands[] = {&target, weight};
    const auto sizes = try_broadcast(operands, call.ask);
    if (weight->dtype != target.dtype || !sizes || !call.ask.all_fit(*sizes, target.sizes))
      return false;
  }
  return int_arg(call.list(), 4) == kNoReduction ? call.give_like(target, target.dtype)
                                                 : give_scalar(call, target);
}

// self, target, reduction
bool soft_margin_loss(const InferCall& call) {
  return are_alike(call, 0, 1) && int_arg(call.list(), 2) != kNoReduction &&
         give_scalar(call, call.tensor(0));
}

// grad_output, self, target, reduction. Others than row-major ones are laid out by turns.
bool soft_margin_loss_backward(const InferCall& call) {
  const TensorType &grad = call.tensor(0), &self = call.tensor(1), &target = call.tensor(2);
  return grad.dtype == self.dtype && grad.rank() == 0 && are_alike(call, 1, 2) &&
         is_row_major(self, call.ask) && is_row_major(target, call.ask) &&
         call.give_fresh(self.sizes, self.dtype, self.device);
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

// grad_output, self, target, weight, reduction, ignore_index, total_weight: of a sample or a batch.
bool nll_loss_backward(const InferCall& call) {
  const TensorType &grad = call.tensor(0), &self = call.tensor(1), &target = call.tensor(2);
  const TensorType* weight = call.optional(3);
  const int64_t rank = self.rank();
  if ((rank != 1 && rank != 2) || target.rank() != rank - 1 || !is_float(self.dtype) ||
      grad.dtype != self.dtype || call.tensor(6).rank() != 0 ||
      !call.ask.all_fit(std::span(self.sizes).first(rank - 1), target.sizes) ||
      !is_gradient_of(call, grad, target.sizes, int_arg(call.list(), 4)))
    return false;
  if (weight && (weight->dtype != self.dtype || weight->rank() != 1 ||
                 !call.ask.fit(weight->sizes[0], self.sizes.back())))
    return false;
  return call.give_fresh(self.sizes, self.dtype, self.device);
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

// log_probs, targets, ...; trace/ctc_loss.h
bool ctc_loss(const InferCall& call) {
  const TensorType &log_probs = call.tensor(0), &targets = call.tensor(1);
  if (log_probs.rank() != 3) return false;  // an error
  sym::Dims paths = {0};
  if (targets.rank() == 2)
    paths = {log_probs.sizes[1], log_probs.sizes[0], targets.sizes[1] * 2 + 1};
  return call.give_fresh({log_probs.sizes[1]}, log_probs.dtype, log_probs.device) &&
         call.give_fresh(std::move(paths), log_probs.dtype, log_probs.device);
}

// tangent, log_probs, ...
bool ctc_loss_backward(const InferCall& call) {
  const TensorType& log_probs = call.tensor(1);
  return call.give_fresh(log_probs.sizes, log_probs.dtype, log_probs.device);
}

constexpr InferEntry kLossesRules[] = {
    {"aten.mse_loss", elementwise_loss, InferUse::kAlways},
    {"aten.smooth_l1_loss", elementwise_loss, InferUse::kAlways},
    {"aten.mse_loss_backward", row_major_gradient, InferUse::kAlways},
    {"aten.smooth_l1_loss_backward", row_major_gradient, InferUse::kAlways},
    {"aten.huber_loss_backward", row_major_gradient, InferUse::kAlways},
    {"aten.huber_loss", loss_like_self<2>, InferUse::kAlways},
    {"aten.binary_cross_entropy", binary_cross_entropy, InferUse::kAlways},
    {"aten.binary_cross_entropy_with_logits", binary_cross_entropy_of_logits, InferUse::kAlways},
    {"aten.soft_margin_loss", soft_margin_loss, InferUse::kAlways},
    {"aten.soft_margin_loss_backward", soft_margin_loss_backward, InferUse::kAlways},
    {"aten.binary_cross_entropy_backward", binary_cross_entropy_backward, InferUse::kAlways},
    {"aten.nll_loss_backward", nll_loss_backward, InferUse::kAlways},
    {"aten.nll_loss2d_forward", nll_loss2d, InferUse::kAlways},
    {"aten.nll_loss2d_backward", nll_loss2d_backward, InferUse::kAlways},
    {"braze.ctc_loss", ctc_loss, InferUse::kAlways},
    {"braze.ctc_loss_backward", ctc_loss_backward, InferUse::kAlways},
};

}  // namespace

std::span<const InferEntry> infer_losses() { return kLossesRules; }

}  // namespace braze::graph
