// One element of a value: the arithmetic that the constant folder and the interpreter share.
#pragma once

#include <span>

#include "loop/ir.h"

namespace braze::loop {

// `i` for integers and bool, `f` for floats. An f32 (f16, bf16) value is kept in the double that
// equals it.
struct Scalar {
  int64_t i = 0;
  double f = 0;
};

int64_t wrap(DType dtype, int64_t value);    // to the width of an integer dtype; bool: != 0
double round_to(DType dtype, double value);  // to a float dtype, half to even
Range range_of(DType dtype);                 // of an integer dtype; everything for floats
Scalar convert(Scalar value, DType from, DType to);

// An op on operands of dtype `operand` (the condition of kWhere is bool). kMasked, kCheckIndex and
// kAfter are the caller's business.
Scalar apply(ExprKind kind, DType operand, std::span<const Scalar> args);

Scalar load(DType dtype, const void* base, int64_t index);
void store(DType dtype, void* base, int64_t index, Scalar value);

}  // namespace braze::loop
