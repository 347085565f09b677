// Losses of two tensors and their gradients.

#include <algorithm>
#include <optional>

#include "graph/arguments.h"
#include "graph/op_kind.h"
#include "passes/decompose_rules.h"
#include "passes/loss_reduction.h"

namespace braze::passes {

using graph::Argument;
using graph::Emitter;
using graph::Node;
using graph::None;
using graph::OpKind;
using graph::Value;
using sym::Int;

namespace {

// Eager rounds each loss of halves before it adds them up, so they are left to it.
bool are_floats(const Node& node, std::initializer_list<int> operands) {
  const graph::TensorType& first = graph::tensor_arg(node, *operands.begin())->type();
  return graph::is_float(first.dtype) && !graph::is_half(first.dtype) &&
         std::ranges::all_of(operands, [&](int i) {
           const graph::TensorType& type = graph::tensor_arg(node, i)->type();
           return type.dtype == first.dtype && type.device == first.device;
         });
}

Replacement reduced(Emitter& emit, Value* loss, int64_t reduction) {
  if (reduction == kMean) return {emit(OpKind::kmean, {loss, None{}})};
  if (reduction == kSum) return {emit(OpKind::ksum, {loss, None{}})};
  return {loss};
}

// `x` times `factor`, divided by the number of elements where the loss is their mean.
Value* scaled(Emitter& emit, Value* x, double factor, int64_t reduction, const Int& elements) {
  if (reduction != kMean) return factor == 1 ? x : emit.mul(x, factor);
  if (elements.is_constant()) return emit.mul(x, factor / static_cast<double>(elements.constant()));
  return emit.div(factor == 1 ? x : emit.mul(x, factor), elements);
}

Value* squared_error(Emitter& emit, const Node& node) {
  Value* d = emit.sub(graph::tensor_arg(node, 0), graph::tensor_arg(node, 1));
  return emit.mul(d, d);
}

// grad, x, target, reduction: 2 (x - target) grad.
Value* squared_error_backward(Emitter& emit, const Node& node) {
  Value *grad = graph::tensor_arg(node, 0), *x = graph::tensor_arg(node, 1);
  Value* d = emit.sub(x, graph::tensor_arg(node, 2));
  return emit.mul(scaled(emit, d, 2.0, graph::int_arg(node, 3), x->type().numel()), grad);
}

// Quadratic up to `bound` from the target, linear beyond (Huber 1964): smooth_l1 is huber / bound.
struct Huber {
  double bound;
  bool is_smooth_l1;
};

// Eager has an absolute error where smooth_l1's bound is 0.
std::optional<Huber> huber_of(const Node& node, int bound) {
  const OpKind kind = node.op().kind;
  const double value = graph::double_arg(node, bound);
  if (!(value > 0)) return std::nullopt;
  return Huber{value, kind == OpKind::ksmooth_l1_loss || kind == OpKind::ksmooth_l1_loss_backward};
}

Value* huber(Emitter& emit, const Node& node, const Huber& of) {
  Value* z =
      emit.unary(OpKind::kabs, emit.sub(graph::tensor_arg(node, 0), graph::tensor_arg(node, 1)));
  Value* square = emit.mul(emit.mul(z, 0.5), z);
  Value* line = emit.sub(z, 0.5 * of.bound);
  Value* is_near = emit(of.is_smooth_l1 ? OpKind::klt_Scalar : OpKind::kle_Scalar, {z, of.bound});
  if (of.is_smooth_l1)
    square = emit.div(square, of.bound);
  else
    line = emit.mul(line, of.bound);
  return emit.where(is_near, square, line);
}

// grad, x, target, reduction, bound: grad by the clamped difference.
Value* huber_backward(Emitter& emit, const Node& node, const Huber& of) {
  Value *grad = graph::tensor_arg(node, 0), *x = graph::tensor_arg(node, 1);
  Value* d = emit.sub(x, graph::tensor_arg(node, 2));
  Value* slope = emit(OpKind::kclamp, {d, -of.bound, of.bound});
  if (of.is_smooth_l1) slope = emit.div(slope, of.bound);
  return emit.mul(scaled(emit, slope, 1.0, graph::int_arg(node, 3), x->type().numel()), grad);
}

// x, target, weight, pos_weight, reduction:
// ((1 - target) x - (1 + (pos_weight - 1) target) log_sigmoid(x)) weight,
// with log_sigmoid(x) = min(x, 0) - log1p(exp(-|x|)).
Value* cross_entropy_of_logits(Emitter& emit, const Node& node) {
  Value *x = graph::tensor_arg(node, 0), *target = graph::tensor_arg(node, 1);
  auto of = [&](OpKind kind, Value* value) { return emit.unary(kind, value); };
  Value* tail = of(OpKind::klog1p, of(OpKind::kexp, of(OpKind::kneg, of(OpKind::kabs, x))));
  Value* log_sigmoid = emit.sub(emit(OpKind::kclamp_max, {x, 0.0}), tail);
  if (Value* pos_weight = graph::optional_tensor_arg(node, 3)) {
    Value* factor = emit.add(emit.mul(emit.sub(pos_weight, 1.0), target), 1.0);
    log_sigmoid = emit.mul(factor, log_sigmoid);
  }
  Value* rest = emit.mul(emit.add(of(OpKind::kneg, target), 1.0), x);
  Value* loss = emit.sub(rest, log_sigmoid);
  Value* weight = graph::optional_tensor_arg(node, 2);
  return weight ? emit.mul(loss, weight) : loss;
}

bool weighs_alike(const Node& node) {
  for (int i : {2, 3}) {
    const Value* weight = graph::optional_tensor_arg(node, i);
    if (weight && weight->type().dtype != graph::tensor_arg(node, 0)->type().dtype) return false;
  }
  return true;
}

}  // namespace

Replacement decompose_loss(Emitter& emit, const Node& node) {
  switch (node.op().kind) {
    case OpKind::kmse_loss:
      if (!are_floats(node, {0, 1})) return {};
      return reduced(emit, squared_error(emit, node), graph::int_arg(node, 2));
    case OpKind::kmse_loss_backward:
      if (!are_floats(node, {0, 1, 2})) return {};
      return {squared_error_backward(emit, node)};
    case OpKind::ksmooth_l1_loss:
    case OpKind::khuber_loss: {
      const auto of = huber_of(node, 3);
      if (!of || !are_floats(node, {0, 1})) return {};
      return reduced(emit, huber(emit, node, *of), graph::int_arg(node, 2));
    }
    case OpKind::ksmooth_l1_loss_backward:
    case OpKind::khuber_loss_backward: {
      const auto of = huber_of(node, 4);
      if (!of || !are_floats(node, {0, 1, 2})) return {};
      return {huber_backward(emit, node, *of)};
    }
    case OpKind::kbinary_cross_entropy_with_logits:
      if (!are_floats(node, {0, 1}) || !weighs_alike(node)) return {};
      return reduced(emit, cross_entropy_of_logits(emit, node), graph::int_arg(node, 4));
    default:
      return {};
  }
}

}  // namespace braze::passes
