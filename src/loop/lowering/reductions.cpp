// Reductions of one operand, a kernel each.
#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/op_kind.h"
#include "loop/lowering/reduce.h"

namespace braze::loop::lowering {

ReducedDims::ReducedDims(const Value* operand, std::vector<int64_t> reduced)
    : is_reduced_(operand->type().sizes.size(), false) {
  const sym::Dims sizes = sizes_of(operand);
  for (int64_t dim : reduced)
    if (!sizes.empty()) is_reduced_[dim] = true;
  for (size_t i = 0; i < sizes.size(); ++i)
    (is_reduced_[i] ? reduced_sizes_ : kept_sizes_).push_back(sizes[i]);
}

Index ReducedDims::operand_index(IndexView outer, IndexView inner) const {
  Index index;
  size_t next_outer = 0, next_inner = 0;
  for (bool reduced : is_reduced_)
    index.push_back(reduced ? inner[next_inner++] : outer[next_outer++]);
  return index;
}

Index ReducedDims::result_index(ExprPool& pool, IndexView outer, int64_t rank) const {
  if (rank == static_cast<int64_t>(outer.size())) return {outer.begin(), outer.end()};
  Index index;
  size_t next = 0;
  for (bool reduced : is_reduced_) index.push_back(reduced ? pool.integer(0) : outer[next++]);
  return index;
}

ReducedDims reduced_dims(const Node& node, const Value* operand, int argument) {
  return {operand, graph::reduction_dims_arg(node, argument, operand->type().rank())};
}

namespace {

using graph::OpKind;
using K = ExprKind;

// From the reduction's result (in the accumulator's dtype) to the value that is stored.
using Epilogue = std::function<ExprRef(ExprPool& pool, ExprRef reduced)>;

struct Reduction {
  ReduceOp op = ReduceOp::kSum;
  std::function<ExprRef(ExprPool& pool, ExprRef element)> prologue;  // empty: none
  Epilogue epilogue;                                                 // empty: none
};

std::string label_of(Lowering& lowering, const Node& node, Value* operand) {
  Value* operands[] = {operand};
  return "fused_" + lowering.traits_over(node, operands, 1).label;
}

bool reduce(Lowering& lowering, const Node& node, const ReducedDims& dims, const Reduction& what) {
  Value* operand = graph::tensor_arg(node, 0);
  ExprPool& pool = lowering.pool();
  KernelBuilder kernel(lowering, node.origin(), label_of(lowering, node, operand),
                       dims.kept_sizes(), dims.reduced_sizes());
  ExprRef value = lowering.element(operand, dims.operand_index(kernel.outer(), kernel.inner()));
  if (what.prologue) value = what.prologue(pool, value);
  ExprRef result = kernel.reduce(what.op, value);
  if (what.epilogue) result = what.epilogue(pool, result);
  Value* target = node.result();
  kernel.store(target, dims.result_index(pool, kernel.outer(), target->type().rank()), result);
  kernel.finish();
  return true;
}

DType result_dtype(const Node& node) { return node.result()->type().dtype; }

Reduction sum_in(DType dtype) {
  return {ReduceOp::kSum,
          [dtype](ExprPool& pool, ExprRef x) { return pool.cast(x, compute_dtype(dtype)); },
          {}};
}

bool lower_sum_over(Lowering& lowering, const Node& node, const ReducedDims& dims) {
  if (result_dtype(node) == DType::kBool) return false;
  return reduce(lowering, node, dims, sum_in(result_dtype(node)));
}

bool lower_mean_over(Lowering& lowering, const Node& node, const ReducedDims& dims) {
  if (!graph::is_float(result_dtype(node))) return false;
  Reduction mean = sum_in(result_dtype(node));
  const sym::Int count = dims.count();
  mean.epilogue = [count](ExprPool& pool, ExprRef sum) {
    return pool.binary(K::kDiv, sum, number_of(pool, count, sum->dtype));
  };
  return reduce(lowering, node, dims, mean);
}

bool lower_prod_over(Lowering& lowering, const Node& node, const ReducedDims& dims) {
  if (result_dtype(node) == DType::kBool) return false;
  Reduction prod = sum_in(result_dtype(node));
  prod.op = ReduceOp::kProd;
  return reduce(lowering, node, dims, prod);
}

ReducedDims all_dims(const Node& node) {
  const Value* operand = graph::tensor_arg(node, 0);
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < operand->type().rank(); ++i) dims.push_back(i);
  return {operand, dims};
}

ReducedDims one_dim(const Node& node, int argument) {
  const Value* operand = graph::tensor_arg(node, 0);
  return {operand, {graph::normalize_dim(graph::int_arg(node, argument), operand->type().rank())}};
}

using Over = bool (*)(Lowering& lowering, const Node& node, const ReducedDims& dims);

template <Over over>
bool full(Lowering& lowering, const Node& node) {
  return over(lowering, node, all_dims(node));
}
template <Over over>
bool listed(Lowering& lowering, const Node& node) {
  return over(lowering, node, reduced_dims(node, graph::tensor_arg(node, 0), 1));
}
template <Over over>
bool single(Lowering& lowering, const Node& node) {
  return over(lowering, node, one_dim(node, 1));
}

template <ReduceOp op>
bool extremum_over(Lowering& lowering, const Node& node, const ReducedDims& dims) {
  if (!never_empty(dims.reduced_sizes())) return false;
  return reduce(lowering, node, dims, {op, {}, {}});
}

template <ReduceOp op>
bool logical_over(Lowering& lowering, const Node& node, const ReducedDims& dims) {
  return reduce(lowering, node, dims,
                {op, [](ExprPool& pool, ExprRef x) { return pool.cast(x, DType::kBool); }, {}});
}

// (values, indices)
template <ReduceOp op>
bool extremum_with_index(Lowering& lowering, const Node& node) {
  Value* operand = graph::tensor_arg(node, 0);
  const ReducedDims dims = one_dim(node, 1);
  if (!never_empty(dims.reduced_sizes())) return false;
  ExprPool& pool = lowering.pool();
  KernelBuilder kernel(lowering, node.origin(), label_of(lowering, node, operand),
                       dims.kept_sizes(), dims.reduced_sizes());
  ExprRef place = kernel.reduce(
      op, lowering.element(operand, dims.operand_index(kernel.outer(), kernel.inner())));
  for (int i = 0; i < 2; ++i) {
    Value* result = node.result(i);
    if (!result || lowering.uses(result) == 0) continue;
    kernel.store(result, dims.result_index(pool, kernel.outer(), result->type().rank()),
                 i == 0 ? kernel.component(place, 1) : place);
  }
  kernel.finish();
  return true;
}

template <ReduceOp op>
bool index_of_extremum(Lowering& lowering, const Node& node) {
  const ReducedDims dims = graph::is_none(node, 1) ? all_dims(node) : one_dim(node, 1);
  if (!never_empty(dims.reduced_sizes())) return false;
  return reduce(lowering, node, dims, {op, {}, {}});
}

// max(0, count - correction)
ExprRef freedom_of(ExprPool& pool, sym::Int count, double correction, DType dtype) {
  if (!count.is_constant())
    return number_of(pool, sym::max(count - sym::Int(static_cast<int64_t>(correction)), 0), dtype);
  return pool.constant(dtype, std::max(0.0, static_cast<double>(count.constant()) - correction));
}

// var, var_mean with `correction` (default 1) subtracted from the count.
bool lower_variance(Lowering& lowering, const Node& node) {
  Value* operand = graph::tensor_arg(node, 0);
  if (!graph::is_float(operand->type().dtype)) return false;
  const ReducedDims dims = reduced_dims(node, operand, 1);
  const double correction = graph::double_arg_or(node, 2, 1.0);
  if (!never_empty(dims.reduced_sizes())) return false;
  if (!dims.count().is_constant() && correction != std::trunc(correction)) return false;
  ExprPool& pool = lowering.pool();
  KernelBuilder kernel(lowering, node.origin(), label_of(lowering, node, operand),
                       dims.kept_sizes(), dims.reduced_sizes());
  ExprRef mean =
      kernel.reduce(ReduceOp::kWelford,
                    lowering.element(operand, dims.operand_index(kernel.outer(), kernel.inner())));
  ExprRef variance = pool.binary(K::kDiv, kernel.component(mean, 1),
                                 freedom_of(pool, dims.count(), correction, mean->dtype));
  for (int i = 0; i < static_cast<int>(node.results().size()); ++i) {
    Value* result = node.result(i);
    if (!result || lowering.uses(result) == 0) continue;
    kernel.store(result, dims.result_index(pool, kernel.outer(), result->type().rank()),
                 i == 0 ? variance : mean);
  }
  kernel.finish();
  return true;
}

// The 1-, 2- and infinity-norm.
bool lower_vector_norm(Lowering& lowering, const Node& node) {
  Value* operand = graph::tensor_arg(node, 0);
  const DType dtype = result_dtype(node);
  if (operand->type().dtype != dtype || dtype != compute_dtype(dtype)) return false;
  const double order = graph::double_arg_or(node, 1, 2);
  const ReducedDims dims = reduced_dims(node, operand, 2);
  auto magnitude = [](ExprPool& pool, ExprRef x) { return pool.unary(K::kAbs, x); };
  if (order == 1) return reduce(lowering, node, dims, {ReduceOp::kSum, magnitude, {}});
  if (std::isinf(order) && never_empty(dims.reduced_sizes()))
    return reduce(lowering, node, dims,
                  {order > 0 ? ReduceOp::kMax : ReduceOp::kMin, magnitude, {}});
  if (order != 2) return false;
  return reduce(lowering, node, dims,
                {ReduceOp::kSum, [](ExprPool& pool, ExprRef x) { return pool.mul(x, x); },
                 [](ExprPool& pool, ExprRef sum) { return pool.unary(K::kSqrt, sum); }});
}

}  // namespace

Handler reduction_handler(OpKind kind) {
  switch (kind) {
    case OpKind::ksum:
      return full<lower_sum_over>;
    case OpKind::ksum_dim_IntList:
      return listed<lower_sum_over>;
    case OpKind::kmean:
      return full<lower_mean_over>;
    case OpKind::kmean_dim:
      return listed<lower_mean_over>;
    case OpKind::kprod:
      return full<lower_prod_over>;
    case OpKind::kprod_dim_int:
      return single<lower_prod_over>;
    case OpKind::kmax:
      return full<extremum_over<ReduceOp::kMax>>;
    case OpKind::kmin:
      return full<extremum_over<ReduceOp::kMin>>;
    case OpKind::kamax:
      return listed<extremum_over<ReduceOp::kMax>>;
    case OpKind::kamin:
      return listed<extremum_over<ReduceOp::kMin>>;
    case OpKind::kmax_dim:
      return extremum_with_index<ReduceOp::kArgMax>;
    case OpKind::kmin_dim:
      return extremum_with_index<ReduceOp::kArgMin>;
    case OpKind::kargmax:
      return index_of_extremum<ReduceOp::kArgMax>;
    case OpKind::kargmin:
      return index_of_extremum<ReduceOp::kArgMin>;
    case OpKind::kany:
      return full<logical_over<ReduceOp::kAny>>;
    case OpKind::kall:
      return full<logical_over<ReduceOp::kAll>>;
    case OpKind::kany_dim:
      return single<logical_over<ReduceOp::kAny>>;
    case OpKind::kall_dim:
      return single<logical_over<ReduceOp::kAll>>;
    case OpKind::kvar_correction:
    case OpKind::kvar_mean_correction:
      return lower_variance;
    case OpKind::klinalg_vector_norm:
      return lower_vector_norm;
    default:
      return nullptr;  // other families, or an extern call
  }
}

}  // namespace braze::loop::lowering
