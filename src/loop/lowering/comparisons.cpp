// Comparisons, logic, extrema and selection.
#include "graph/op_kind.h"
#include "loop/lowering/pointwise.h"

namespace braze::loop::lowering {
namespace {

using graph::OpKind;
using K = ExprKind;

// The dtype that operands are compared or combined in when the result has another.
DType common_dtype(const Node& node, int count) {
  return graph::result_type(std::span(node.args()).first(count));
}

template <K kind>
bool comparison(Lowering& lowering, const Node& node) {
  return lower_binary(lowering, node, common_dtype(node, 2), binary<kind>, /*heavy=*/false,
                      BesideHalves::kRounded);
}
template <K kind>
bool swapped_comparison(Lowering& lowering, const Node& node) {
  return lower_binary(lowering, node, common_dtype(node, 2), swapped<kind>, /*heavy=*/false,
                      BesideHalves::kRounded);
}
// Eager refuses floats: the extern call raises its error.
template <K kind>
bool bitwise(Lowering& lowering, const Node& node) {
  if (graph::is_float(result_dtype(node))) return false;
  return lower_binary(lowering, node, result_dtype(node), binary<kind>);
}

// The truth of each operand in their common dtype: 2**40 beside 32-bit integers is 0.
template <K kind>
bool logical(Lowering& lowering, const Node& node) {
  return lower_binary(lowering, node, common_dtype(node, 2),
                      [](ExprPool& pool, ExprRef a, ExprRef b) {
                        return pool.binary(kind, to_bool(pool, a), to_bool(pool, b));
                      });
}

template <K kind>
bool extremum(Lowering& lowering, const Node& node) {
  return lower_binary(lowering, node, result_dtype(node), [](ExprPool& pool, ExprRef a, ExprRef b) {
    if (a->dtype != DType::kBool) return pool.binary(kind, a, b);
    return pool.binary(kind == K::kMax ? K::kOr : K::kAnd, a, b);
  });
}

// fmax, fmin: the other operand where one is NaN.
template <K kind>
bool number_extremum(Lowering& lowering, const Node& node) {
  return lower_binary(lowering, node, result_dtype(node), [](ExprPool& pool, ExprRef a, ExprRef b) {
    if (a->dtype == DType::kBool) return pool.binary(kind == K::kMax ? K::kOr : K::kAnd, a, b);
    ExprRef both = pool.binary(kind, b, a);  // the first where they are equal
    if (!graph::is_float(a->dtype)) return both;
    return pool.where(pool.unary(K::kIsNan, a), b, pool.where(pool.unary(K::kIsNan, b), a, both));
  });
}

enum class Bounds { kBoth, kLow, kHigh };
template <Bounds bounds>
bool lower_clamp(Lowering& lowering, const Node& node) {
  if (result_dtype(node) == DType::kBool) return false;
  const bool has_lo = bounds != Bounds::kHigh && !graph::is_none(node, 1);
  const int hi_at = bounds == Bounds::kBoth ? 2 : 1;
  const bool has_hi = bounds != Bounds::kLow && !graph::is_none(node, hi_at);
  std::vector<Operand> operands = {operand_arg(node, 0)};
  if (has_lo) operands.push_back(operand_arg(node, 1, BesideHalves::kRounded));
  if (has_hi) operands.push_back(operand_arg(node, hi_at, BesideHalves::kRounded));
  return define_pointwise(lowering, node, operands, result_dtype(node), {2, false},
                          [has_lo, has_hi](ExprPool& pool, std::span<const ExprRef> x) {
                            return clamp(pool, x[0], has_lo ? x[1] : nullptr,
                                         has_hi ? x.back() : nullptr);
                          });
}

bool lower_select(Lowering& lowering, const Node& node, Value* condition, Operand yes, Operand no) {
  if (condition->type().dtype != DType::kBool) return false;
  const DType dtype = compute_dtype(result_dtype(node));
  ExprRef numbers[2] = {nullptr, nullptr};
  std::vector<Value*> values = {condition};
  for (int i = 0; i < 2; ++i) {
    const Operand& operand = i == 0 ? yes : no;
    if (operand.value) {
      values.push_back(operand.value);
    } else if (!(numbers[i] = number_as(lowering.pool(), operand, result_dtype(node)))) {
      return false;
    }
  }
  auto at = [&lowering, condition, yes, no, dtype, a = numbers[0], b = numbers[1],
             result = result_dtype(node)](IndexView index) {
    ExprPool& pool = lowering.pool();
    auto get = [&](Value* value) {
      return pool.cast(lowering.broadcast_element(value, index), dtype);
    };
    return pool.cast(pool.where(lowering.broadcast_element(condition, index),
                                a ? a : get(yes.value), b ? b : get(no.value)),
                     result);
  };
  lowering.define(node, 0, lowering.traits_over(node, values, 1), at);
  return true;
}

bool lower_where(Lowering& lowering, const Node& node) {
  return lower_select(lowering, node, graph::tensor_arg(node, 0),
                      operand_arg(node, 1, BesideHalves::kRounded),
                      operand_arg(node, 2, BesideHalves::kRounded));
}
bool lower_masked_fill(Lowering& lowering, const Node& node) {
  return lower_select(lowering, node, graph::tensor_arg(node, 1),
                      operand_arg(node, 2, BesideHalves::kRounded), operand_arg(node, 0));
}

}  // namespace

Handler comparison_handler(OpKind kind) {
  switch (kind) {
    case OpKind::kclamp:
    case OpKind::kclamp_Tensor:
      return lower_clamp<Bounds::kBoth>;
    case OpKind::kclamp_min:
    case OpKind::kclamp_min_Tensor:
      return lower_clamp<Bounds::kLow>;
    case OpKind::kclamp_max:
    case OpKind::kclamp_max_Tensor:
      return lower_clamp<Bounds::kHigh>;
    case OpKind::kmaximum:
      return extremum<K::kMax>;
    case OpKind::kminimum:
      return extremum<K::kMin>;
    case OpKind::kfmax:
      return number_extremum<K::kMax>;
    case OpKind::kfmin:
      return number_extremum<K::kMin>;
    case OpKind::keq_Tensor:
    case OpKind::keq_Scalar:
      return comparison<K::kEq>;
    case OpKind::kne_Tensor:
    case OpKind::kne_Scalar:
      return comparison<K::kNe>;
    case OpKind::klt_Tensor:
    case OpKind::klt_Scalar:
      return comparison<K::kLt>;
    case OpKind::kle_Tensor:
    case OpKind::kle_Scalar:
      return comparison<K::kLe>;
    case OpKind::kgt_Tensor:
    case OpKind::kgt_Scalar:
      return swapped_comparison<K::kLt>;
    case OpKind::kge_Tensor:
    case OpKind::kge_Scalar:
      return swapped_comparison<K::kLe>;
    case OpKind::klogical_and:
      return logical<K::kAnd>;
    case OpKind::klogical_or:
      return logical<K::kOr>;
    case OpKind::klogical_xor:
      return logical<K::kXor>;
    case OpKind::kbitwise_and_Tensor:
    case OpKind::kbitwise_and_Scalar:
      return bitwise<K::kAnd>;
    case OpKind::kbitwise_or_Tensor:
    case OpKind::kbitwise_or_Scalar:
      return bitwise<K::kOr>;
    case OpKind::kbitwise_xor_Tensor:
    case OpKind::kbitwise_xor_Scalar:
      return bitwise<K::kXor>;
    case OpKind::kbitwise_left_shift_Tensor:
      return bitwise<K::kShl>;
    case OpKind::kbitwise_right_shift_Tensor:
      return bitwise<K::kShr>;
    case OpKind::kwhere_self:
      return lower_where;
    case OpKind::kmasked_fill_Scalar:
    case OpKind::kmasked_fill_Tensor:
      return lower_masked_fill;
    default:
      return nullptr;  // other families, or an extern call
  }
}

}  // namespace braze::loop::lowering
