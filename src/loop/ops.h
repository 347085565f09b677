// The kinds of expressions of the loop-level IR (expr.h), each once, by class: id, text, arity (-1:
// no operands), is_comparison (the result is bool), cost (rough time of a vector of it, in vector
// additions).
#pragma once

// Terms, which are no operations on numbers.
#define BRAZE_LOOP_TERMS(X)           \
  X(Const, "const", -1, false, 0)     \
  X(Axis, "axis", -1, false, 0)       \
  X(Size, "size", -1, false, 0)       \
  X(Load, "load", 1, false, 0)        \
  X(Reduced, "reduced", -1, false, 0) \
  X(Scanned, "scanned", -1, false, 0) \
  X(Cast, "cast", 1, false, 1)        \
  X(Bitcast, "bitcast", 1, false, 1)

// Of any dtype; correctly rounded, so that constants can be folded. Unary: result dtype = operand;
// binary: operands of one dtype.
#define BRAZE_LOOP_EXACT(X)                         \
  X(Neg, "neg", 1, false, 1)                        \
  X(Abs, "abs", 1, false, 1)                        \
  X(Floor, "floor", 1, false, 1)                    \
  X(Ceil, "ceil", 1, false, 1)                      \
  X(Trunc, "trunc", 1, false, 1)                    \
  X(Round, "round", 1, false, 1) /* half to even */ \
  X(Not, "not", 1, true, 1)      /* bool */         \
  X(IsNan, "isnan", 1, true, 1)                     \
  X(IsInf, "isinf", 1, true, 1)                     \
  X(Add, "add", 2, false, 1)                        \
  X(Sub, "sub", 2, false, 1)                        \
  X(Mul, "mul", 2, false, 1)                        \
  X(Min, "min", 2, false, 1)                        \
  X(Max, "max", 2, false, 1)                        \
  X(Eq, "eq", 2, true, 1)                           \
  X(Ne, "ne", 2, true, 1)                           \
  X(Lt, "lt", 2, true, 1)                           \
  X(Le, "le", 2, true, 1)

// The same, of floats only.
#define BRAZE_LOOP_EXACT_FLOATS(X) \
  X(Sqrt, "sqrt", 1, false, 4)     \
  X(Div, "div", 2, false, 4)

// The same, of integers only; bitwise, logical on bool.
#define BRAZE_LOOP_BITS(X)         \
  X(BitNot, "bitnot", 1, false, 1) \
  X(And, "and", 2, false, 1)       \
  X(Or, "or", 2, false, 1)         \
  X(Xor, "xor", 2, false, 1)       \
  X(Shl, "shl", 2, false, 1)       \
  X(Shr, "shr", 2, false, 1)

// Exact for integers; of floats a call of a function.
#define BRAZE_LOOP_DIVISIONS(X)         \
  X(FloorDiv, "floordiv", 2, false, 15) \
  X(TruncDiv, "truncdiv", 2, false, 15) \
  X(Mod, "mod", 2, false, 15)           \
  X(Fmod, "fmod", 2, false, 30)         \
  X(Pow, "pow", 2, false, 30)

// Of floats, right to a few ulp.
#define BRAZE_LOOP_FUNCTIONS(X)       \
  X(Exp, "exp", 1, false, 15)         \
  X(Exp2, "exp2", 1, false, 15)       \
  X(Expm1, "expm1", 1, false, 30)     \
  X(Log, "log", 1, false, 15)         \
  X(Log2, "log2", 1, false, 15)       \
  X(Log10, "log10", 1, false, 30)     \
  X(Log1p, "log1p", 1, false, 30)     \
  X(Rsqrt, "rsqrt", 1, false, 4)      \
  X(Sin, "sin", 1, false, 30)         \
  X(Cos, "cos", 1, false, 30)         \
  X(Tan, "tan", 1, false, 30)         \
  X(Asin, "asin", 1, false, 30)       \
  X(Acos, "acos", 1, false, 30)       \
  X(Atan, "atan", 1, false, 30)       \
  X(Sinh, "sinh", 1, false, 30)       \
  X(Cosh, "cosh", 1, false, 30)       \
  X(Tanh, "tanh", 1, false, 15)       \
  X(Erf, "erf", 1, false, 15)         \
  X(Sigmoid, "sigmoid", 1, false, 15) \
  X(Atan2, "atan2", 2, false, 30)

// Of integers i64, exact: key, offset, subsequence, word. See expr.h.
#define BRAZE_LOOP_RANDOM(X) X(Random, "random", 4, false, 20)

#define BRAZE_LOOP_CONTROL(X)               \
  X(Where, "where", 3, false, 1)            \
  X(Masked, "masked", 3, false, 1)          \
  X(CheckIndex, "check_index", 2, false, 1) \
  X(After, "after", 2, false, 0)

#define BRAZE_LOOP_OPS(X)    \
  BRAZE_LOOP_EXACT(X)        \
  BRAZE_LOOP_EXACT_FLOATS(X) \
  BRAZE_LOOP_BITS(X)         \
  BRAZE_LOOP_DIVISIONS(X)    \
  BRAZE_LOOP_FUNCTIONS(X)    \
  BRAZE_LOOP_RANDOM(X)       \
  BRAZE_LOOP_CONTROL(X)
