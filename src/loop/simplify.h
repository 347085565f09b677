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

#include "loop/ir.h"

namespace braze::loop {

namespace simplify {
// `raw` below: makes the node as it is. The callers are ExprPool and the rules themselves.
using Raw = ExprRef (*)(ExprPool& pool, ExprKind kind, DType dtype, std::span<const ExprRef> args);

// The simplified expression or null where no rule applies.
ExprRef integer_op(ExprPool& pool, Raw raw, ExprKind kind, DType dtype,
                   std::span<const ExprRef> args);
// Identities that are exact for any dtype.
ExprRef identity(ExprPool& pool, ExprKind kind, DType dtype, std::span<const ExprRef> args);
// The values that the op can have, from those of its operands.
Range range_of_op(ExprKind kind, DType dtype, std::span<const ExprRef> args);
}  // namespace simplify

}  // namespace braze::loop
