// The canonical form of an i64 expression: a sum of terms in a fixed order, with constants and
// sizes as coefficients. By it equal indices are equal pointers, and an index can be asked for its
// strides and its bounds.
//
//   (o0*64 + o1) + o0*64  ->  o0*128 + o1
#pragma once

#include <optional>
#include <vector>

#include "loop/ir.h"

namespace braze::loop {

// An i64 expression as a sum; `terms` are in canonical order, with non-zero coefficients.
struct LinearForm {
  struct Term {
    ExprRef atom;  // not a sum, not a size, not a product with a size
    sym::Int coefficient;
  };
  std::vector<Term> terms;
  sym::Int constant = 0;
};
LinearForm linear_form(ExprRef expr);
// Adds `expr * scale`, without bringing the terms into order; that is what sort_and_merge does.
void collect(ExprRef expr, sym::Int scale, LinearForm& form);
void sort_and_merge(LinearForm& form);
// A product of coefficients; constants wrap, as i64 does.
sym::Int times(sym::Int a, sym::Int b);
// Axes first, by number; then by structure, so that the order is the same in every pool.
bool before(ExprRef a, ExprRef b);

// A constant or a kSize: the same at every point.
inline bool is_size(ExprRef expr) {
  return expr->kind == ExprKind::kSize || (expr->is_constant() && expr->dtype == DType::kInt64);
}
inline sym::Int size_value(ExprRef expr) {
  return expr->kind == ExprKind::kSize ? expr->size : sym::Int(expr->ival);
}

// A quotient or remainder (`kind`) of i64 by a positive constant or size.
bool is_op_by_size(ExprRef expr, ExprKind kind);

// Ends of the values of an i64 expression as sizes, both included; absent where not known.
struct Bounds {
  std::optional<sym::Int> lo, hi;
};
Bounds bounds_of(ExprRef expr);
// Whether 0 <= expr < size is known.
bool lies_within(ExprRef expr, sym::Int size);

// Numbers of index arithmetic stay below this: a few of them can be added up exactly in i64.
constexpr int64_t kBound = int64_t{1} << 60;
// Whether an i64 expression is known to stay far enough from the ends of i64 for sums of a few
// such expressions to be exact.
bool is_bounded(Range range);

// How an index depends on an axis.
struct IndexInfo {
  explicit IndexInfo(ExprRef index) : index_(index) {}

  Range range() const { return index_->range; }
  bool depends_on(int axis) const;
  // The stride along the axis where the index is `axis * stride + (free of the axis)`.
  std::optional<sym::Int> stride(int axis) const;

 private:
  ExprRef index_;
};

// Whether the axis occurs in the expression (in loads' indices too).
bool depends_on(ExprRef expr, int axis);

}  // namespace braze::loop
