// What the elementwise families share: operands that broadcast, numbers, the dtype computed in.
#pragma once

#include "graph/infer/promotion.h"
#include "loop/lowering/lowering.h"

namespace braze::loop::lowering {

// What eager makes of a number that a half cannot hold, beside halves, which are computed in single
// precision: what an operator's kernels do, and what is the same whichever they do.
enum class BesideHalves { kUnknown, kRounded, kSingle };

// A tensor or a number argument.
struct Operand {
  Value* value = nullptr;
  graph::Argument number;
  BesideHalves beside_halves = BesideHalves::kUnknown;
};
Operand operand_arg(const Node& node, int i, BesideHalves beside_halves = BesideHalves::kUnknown);

// A number as a constant of `dtype`; null where the dtype cannot hold it as eager would.
ExprRef number_as(ExprPool& pool, const graph::Argument& number, DType dtype,
                  BesideHalves beside_halves = BesideHalves::kUnknown);
inline ExprRef number_as(ExprPool& pool, const Operand& operand, DType dtype) {
  return number_as(pool, operand.number, dtype, operand.beside_halves);
}

// x, y, ... of one dtype (compute_dtype of the dtype asked for) to the result, of any dtype.
using Formula = std::function<ExprRef(ExprPool& pool, std::span<const ExprRef> x)>;

struct Cost {
  int size = 1;
  bool heavy = false;
};

// result 0 = formula(operands cast to `dtype`), cast to the result's dtype.
bool define_pointwise(Lowering& lowering, const Node& node, std::vector<Operand> operands,
                      DType dtype, Cost cost, Formula formula);

// The same for a formula of one or two operands, which are the first arguments.
using Unary = ExprRef (*)(ExprPool& pool, ExprRef x);
using Binary = ExprRef (*)(ExprPool& pool, ExprRef a, ExprRef b);
bool lower_unary(Lowering& lowering, const Node& node, Unary formula, bool heavy = false);
bool lower_binary(Lowering& lowering, const Node& node, DType dtype, Binary formula,
                  bool heavy = false, BesideHalves beside_halves = BesideHalves::kUnknown);

inline DType result_dtype(const Node& node) { return node.result()->type().dtype; }

template <ExprKind kind>
ExprRef unary(ExprPool& pool, ExprRef x) {
  return pool.unary(kind, x);
}
template <ExprKind kind>
ExprRef binary(ExprPool& pool, ExprRef a, ExprRef b) {
  return pool.binary(kind, a, b);
}
template <ExprKind kind>
ExprRef swapped(ExprPool& pool, ExprRef a, ExprRef b) {
  return pool.binary(kind, b, a);
}

inline ExprRef to_bool(ExprPool& pool, ExprRef x) { return pool.cast(x, DType::kBool); }
ExprRef greater(ExprPool& pool, ExprRef a, ExprRef b);
// min(max(x, lo), hi), NaN propagating; either bound may be null.
ExprRef clamp(ExprPool& pool, ExprRef x, ExprRef lo, ExprRef hi);

}  // namespace braze::loop::lowering
