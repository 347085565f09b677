// The gradient of the negative log likelihood loss.
#include "graph/op_kind.h"
#include "loop/lowering/pointwise.h"

namespace braze::loop::lowering {
namespace {

using graph::OpKind;
using K = ExprKind;

constexpr int64_t kNone = 0, kMean = 1;

// dy, x, target, weight, reduction, target to ignore, total weight: -dy * weight[target] at the
// target of each row, zero elsewhere.
bool lower_nll_backward(Lowering& lowering, const Node& node) {
  Value* dy = graph::tensor_arg(node, 0);
  Value* target = graph::tensor_arg(node, 2);
  Value* weight = graph::optional_tensor_arg(node, 3);
  Value* total = graph::tensor_arg(node, 6);
  const int64_t reduction = graph::int_arg(node, 4);
  const sym::Int ignored = graph::sym_arg(node, 5);
  const graph::TensorType& type = node.result()->type();
  std::vector<Value*> operands = {dy};
  if (weight) operands.push_back(weight);
  if (reduction == kMean) operands.push_back(total);
  if (type.rank() != 2 || target->type().rank() != 1 || target->type().dtype != DType::kInt64 ||
      dy->type().rank() != (reduction == kNone ? 1 : 0) || !graph::is_float(type.dtype) ||
      type.dtype != compute_dtype(type.dtype))
    return false;
  for (const Value* operand : operands)
    if (operand->type().dtype != type.dtype) return false;
  if (reduction == kMean && total->type().rank() != 0) return false;
  for (Value* operand : operands) lowering.realise_math(operand);
  lowering.realise_checked(target);
  operands.push_back(target);
  const sym::Int classes = type.sizes[1];
  Traits traits = lowering.traits_over(node, operands, 8);
  traits.checked = true;
  lowering.define(node, 0, traits, [=, &lowering, dtype = type.dtype](IndexView index) {
    ExprPool& pool = lowering.pool();
    ExprRef place = lowering.element(target, index.first(1));
    ExprRef skipped = pool.binary(K::kEq, place, pool.index(ignored));
    ExprRef checked = lowering.checked(pool.where(skipped, pool.integer(0), place), classes);
    ExprRef grad = lowering.element(dy, index.first(reduction == kNone ? 1 : 0));
    if (reduction == kMean) grad = pool.binary(K::kDiv, grad, lowering.element(total, {}));
    grad = pool.unary(K::kNeg, grad);
    if (weight) grad = pool.mul(grad, lowering.element(weight, Index{checked}));
    ExprRef hit =
        pool.binary(K::kAnd, pool.binary(K::kEq, index[1], checked), pool.unary(K::kNot, skipped));
    return pool.where(hit, grad, pool.constant(dtype, 0));
  });
  return true;
}

}  // namespace

Handler loss_handler(OpKind kind) {
  return kind == OpKind::knll_loss_backward ? lower_nll_backward : nullptr;
}

}  // namespace braze::loop::lowering
