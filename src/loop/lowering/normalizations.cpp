// Softmax and its kind: kernels that walk a row several times.
#include <algorithm>
#include <cmath>

#include "graph/op_kind.h"
#include "loop/lowering/pointwise.h"
#include "loop/lowering/reduce.h"

namespace braze::loop::lowering {
namespace {

using graph::OpKind;
using K = ExprKind;

enum class Softmax { kPlain, kLog, kSafe };

template <Softmax variant>
bool lower_softmax(Lowering& lowering, const Node& node) {
  Value* operand = graph::tensor_arg(node, 0);
  const DType dtype = compute_dtype(node.result()->type().dtype);
  const int64_t rank = operand->type().rank();
  if (rank == 0 || !graph::is_float(operand->type().dtype)) return false;
  const int64_t dim = graph::normalize_dim(graph::int_arg(node, 1), rank);
  lowering.realise_heavy(operand);
  const ReducedDims dims(operand, {dim});
  if (!never_empty(dims.reduced_sizes())) return false;
  ExprPool& pool = lowering.pool();
  Value* operands[] = {operand};
  std::string label = lowering.traits_over(node, operands, 1).label;
  KernelBuilder kernel(lowering, node.origin(), "fused_" + label, dims.kept_sizes(),
                       dims.reduced_sizes());
  const Index index = dims.operand_index(kernel.outer(), kernel.inner());
  ExprRef x = pool.cast(lowering.element(operand, index), dtype);
  ExprRef max = kernel.reduce(ReduceOp::kMax, x);
  ExprRef shifted = pool.binary(K::kSub, x, max);
  ExprRef exp = pool.unary(K::kExp, shifted);
  ExprRef sum = kernel.reduce(ReduceOp::kSum, exp);
  ExprRef result = variant == Softmax::kLog
                       ? pool.binary(K::kSub, shifted, pool.unary(K::kLog, sum))
                       : pool.binary(K::kDiv, exp, sum);
  if (variant == Softmax::kSafe) {  // zeros for a row that is masked out altogether
    ExprRef nothing = pool.binary(K::kEq, max, pool.constant(dtype, -INFINITY));
    result = pool.where(nothing, pool.constant(dtype, 0), result);
  }
  kernel.store(node.result(), index, result, true);
  kernel.finish();
  return true;
}

// log(sum(exp(x - m))) + m with m = max(x), 0 where that is infinite.
bool lower_logsumexp(Lowering& lowering, const Node& node) {
  Value* operand = graph::tensor_arg(node, 0);
  if (!graph::is_float(operand->type().dtype)) return false;
  const DType dtype = compute_dtype(operand->type().dtype);
  const ReducedDims dims = reduced_dims(node, operand, 1);
  if (!never_empty(dims.reduced_sizes())) return false;
  lowering.realise_heavy(operand);
  ExprPool& pool = lowering.pool();
  KernelBuilder kernel(lowering, node.origin(), "fused_logsumexp", dims.kept_sizes(),
                       dims.reduced_sizes());
  ExprRef x = pool.cast(
      lowering.element(operand, dims.operand_index(kernel.outer(), kernel.inner())), dtype);
  ExprRef max = kernel.reduce(ReduceOp::kMax, x);
  ExprRef shift = pool.where(pool.unary(K::kIsInf, max), pool.constant(dtype, 0), max);
  ExprRef sum = kernel.reduce(ReduceOp::kSum, pool.unary(K::kExp, pool.binary(K::kSub, x, shift)));
  ExprRef result = pool.add(pool.unary(K::kLog, sum), shift);
  Value* target = node.result();
  kernel.store(target, dims.result_index(pool, kernel.outer(), target->type().rank()), result);
  kernel.finish();
  return true;
}

}  // namespace

Handler normalization_handler(OpKind kind) {
  switch (kind) {
    case OpKind::k_softmax:
      return lower_softmax<Softmax::kPlain>;
    case OpKind::k_log_softmax:
      return lower_softmax<Softmax::kLog>;
    case OpKind::k_safe_softmax:
      return lower_softmax<Softmax::kSafe>;
    case OpKind::klogsumexp:
      return lower_logsumexp;
    default:
      return nullptr;  // other families, or an extern call
  }
}

}  // namespace braze::loop::lowering
