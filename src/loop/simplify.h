// Exact rules on integer expressions, applied by ExprPool::make.
//
// i64 arithmetic is a ring, wrapping or not, so every i64 sum has one form: terms
// `atom * coefficient` in a fixed order (axes by number, then the rest by structure), left to
// right, the constant last. Equal indices are therefore equal pointers:
//
//   (o0*64 + o1) + o0*64  ->  o0*128 + o1
//
// A kSize is a coefficient like a constant; equal polynomials of sizes are equal coefficients.
//
// Divisions and remainders by positive constants and sizes use ranges, and only where no step can
// overflow:
//
//   (x*n + y) // n  ->  x             with 0 <= y < n        and  % n  ->  y
//   (g*x + y) // (g*m)  ->  x // m    with 0 <= y < g
//   (x // a) // b  ->  x // (a*b);   (x % (a*b)) // a  ->  (x // a) % b
//   (x // n)*n + x % n  ->  x;       ((x // a) % b)*a + x % a  ->  x % (a*b)
//
// Comparisons, min, max, where, masked and check_index fold where ranges decide them.
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

// A constant or a kSize: the same at every point.
inline bool is_size(ExprRef expr) {
  return expr->kind == ExprKind::kSize || (expr->is_constant() && expr->dtype == DType::kInt64);
}
inline sym::Int size_value(ExprRef expr) {
  return expr->kind == ExprKind::kSize ? expr->size : sym::Int(expr->ival);
}

// Ends of the values of an i64 expression as sizes, both included; absent where not known.
struct Bounds {
  std::optional<sym::Int> lo, hi;
};
Bounds bounds_of(ExprRef expr);
// Whether 0 <= expr < size is known.
bool lies_within(ExprRef expr, sym::Int size);

// Whether an i64 expression is known to stay far enough from the ends of i64 for sums of a few
// such expressions to be exact.
bool is_bounded(Range range);

// What the access pattern of an index is with respect to an axis.
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

namespace simplify {
// `raw` below: makes the node as it is. The callers are ExprPool and the rules themselves.
using Raw = ExprRef (*)(ExprPool& pool, ExprKind kind, DType dtype, std::span<const ExprRef> args);

// The simplified expression or null where no rule applies.
ExprRef integer_op(ExprPool& pool, Raw raw, ExprKind kind, DType dtype,
                   std::span<const ExprRef> args);
// Identities that are exact for any dtype.
ExprRef identity(ExprPool& pool, ExprKind kind, DType dtype, std::span<const ExprRef> args);
Range range_of_op(ExprKind kind, DType dtype, std::span<const ExprRef> args);
}  // namespace simplify

}  // namespace braze::loop
