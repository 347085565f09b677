// Softmax and normalisation layers: kernels that walk a row several times.
#include <algorithm>
#include <cmath>

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

// (out, mean, 1 / sqrt(var + eps)) over the last dims.
bool lower_layer_norm(Lowering& lowering, const Node& node) {
  Value* operand = graph::tensor_arg(node, 0);
  Value* weight = graph::optional_tensor_arg(node, 2);
  Value* bias = graph::optional_tensor_arg(node, 3);
  const DType dtype = operand->type().dtype;
  if (!graph::is_float(dtype) || dtype != compute_dtype(dtype)) return false;
  for (Value* scale : {weight, bias})
    if (scale && scale->type().dtype != dtype) return false;
  const int64_t rank = operand->type().rank();
  const auto normalized = static_cast<int64_t>(graph::dims_arg(node, 1).size());
  std::vector<int64_t> reduced;
  for (int64_t i = rank - normalized; i < rank; ++i) reduced.push_back(i);
  const ReducedDims dims(operand, reduced);
  if (normalized == 0 || !never_empty(dims.reduced_sizes())) return false;
  lowering.realise_heavy(operand);
  for (Value* scale : {weight, bias})
    if (scale) lowering.realise_heavy(scale);

  ExprPool& pool = lowering.pool();
  Value* operands[] = {operand};
  KernelBuilder kernel(lowering, node.origin(),
                       "fused_" + lowering.traits_over(node, operands, 1).label, dims.kept_sizes(),
                       dims.reduced_sizes());
  const Index index = dims.operand_index(kernel.outer(), kernel.inner());
  ExprRef x = lowering.element(operand, index);
  ExprRef mean = kernel.reduce(ReduceOp::kWelford, x);
  ExprRef variance =
      pool.binary(K::kDiv, kernel.component(mean, 1), number_of(pool, dims.count(), dtype));
  ExprRef rstd =
      pool.unary(K::kRsqrt, pool.add(variance, pool.constant(dtype, graph::double_arg(node, 4))));
  ExprRef out = pool.mul(pool.binary(K::kSub, x, mean), rstd);
  if (weight) out = pool.mul(out, lowering.element(weight, kernel.inner()));
  if (bias) out = pool.add(out, lowering.element(bias, kernel.inner()));
  if (lowering.uses(node.result(0)) > 0) kernel.store(node.result(0), index, out, true);
  for (int i = 1; i < 3; ++i) {
    Value* result = node.result(i);
    if (!result || lowering.uses(result) == 0) continue;
    kernel.store(result, dims.result_index(pool, kernel.outer(), result->type().rank()),
                 i == 1 ? mean : rstd);
  }
  kernel.finish();
  return true;
}

// Batch norm with running statistics: x * alpha + beta by channel, as eager computes it. The
// results besides the first are empty on the CPU.
bool define_batch_norm(Lowering& lowering, const Node& node, double eps) {
  Value* x = graph::tensor_arg(node, 0);
  Value* scale[] = {graph::optional_tensor_arg(node, 1), graph::optional_tensor_arg(node, 2),
                    graph::optional_tensor_arg(node, 3), graph::optional_tensor_arg(node, 4)};
  const DType dtype = x->type().dtype;
  if (!scale[2] || !scale[3] || x->type().rank() < 2 || !graph::is_float(dtype) ||
      dtype != compute_dtype(dtype))
    return false;
  std::vector<Value*> operands = {x};
  for (Value* value : scale) {
    if (!value) continue;
    if (value->type().dtype != dtype) return false;
    operands.push_back(value);
  }
  for (size_t i = 1; i < node.results().size(); ++i) {
    Value* result = node.result(static_cast<int>(i));
    if (!result || lowering.uses(result) == 0) continue;
    if (count_of(sizes_of(result)) != sym::Int(0)) return false;
  }
  for (size_t i = 1; i < node.results().size(); ++i) {
    if (!node.result(static_cast<int>(i))) continue;
    const DType other = node.result(static_cast<int>(i))->type().dtype;
    lowering.define(node, static_cast<int>(i), {.size = 1}, [&lowering, other](IndexView) {
      return lowering.pool().cast(lowering.pool().number(compute_dtype(other), 0), other);
    });
  }
  auto at = [&lowering, x, weight = scale[0], bias = scale[1], mean = scale[2], variance = scale[3],
             eps](IndexView index) {
    ExprPool& pool = lowering.pool();
    IndexView channel = index.subspan(1, 1);
    ExprRef value = lowering.element(x, index);
    ExprRef shifted =
        pool.add(lowering.element(variance, channel), pool.constant(value->dtype, eps));
    ExprRef alpha =
        pool.binary(K::kDiv, pool.constant(value->dtype, 1), pool.unary(K::kSqrt, shifted));
    if (weight) alpha = pool.mul(alpha, lowering.element(weight, channel));
    ExprRef moved = pool.mul(lowering.element(mean, channel), alpha);
    ExprRef beta = bias ? pool.binary(K::kSub, lowering.element(bias, channel), moved)
                        : pool.unary(K::kNeg, moved);
    return pool.add(pool.mul(value, alpha), beta);
  };
  lowering.define(node, 0, lowering.traits_over(node, operands, 8), at);
  return true;
}

bool lower_batch_norm_inference(Lowering& lowering, const Node& node) {
  return define_batch_norm(lowering, node, graph::double_arg(node, 6));
}

bool lower_batch_norm(Lowering& lowering, const Node& node) {
  if (graph::bool_arg(node, 5)) return false;
  return define_batch_norm(lowering, node, graph::double_arg(node, 7));
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
    case OpKind::knative_layer_norm:
      return lower_layer_norm;
    case OpKind::k_native_batch_norm_legit_no_training:
      return lower_batch_norm_inference;
    case OpKind::knative_batch_norm:
      return lower_batch_norm;
    default:
      return nullptr;  // other families, or an extern call
  }
}

}  // namespace braze::loop::lowering
