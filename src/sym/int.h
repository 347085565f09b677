// Symbolic integers: sizes, strides and offsets of the whole compiler.
//
// An `Int` is a 64-bit constant or a pointer to an expression interned in a `ShapeEnv`, which must
// outlive it. Arithmetic on constants is plain arithmetic. Equality is structural: two Ints are
// `==` if they are the same constant or the same interned expression. Expressions are kept in a
// canonical form (expr.h), so equal polynomials are the same expression.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace braze::sym {

struct Expr;  // sym/expr.h

// A symbolic size where the code needs a number. What rewrites or lowers an op may catch it and
// leave the op as it is.
class NotConstant : public InternalError {
 public:
  using InternalError::InternalError;
};

class Int {
 public:
  Int() = default;
  template <std::integral T>
  Int(T value) : value_(static_cast<int64_t>(value)) {}  // NOLINT: implicit, a size is a number
  explicit Int(const Expr* expr) : expr_(expr) {}

  bool is_constant() const { return expr_ == nullptr; }
  // The value of a constant; throws NotConstant for an expression.
  int64_t constant() const {
    if (!is_constant()) [[unlikely]]
      not_constant();
    return value_;
  }
  const Expr* expr() const { return expr_; }
  // The value seen when the graph was traced (a constant is its own hint).
  int64_t hint() const;

  friend bool operator==(const Int& a, const Int& b) {
    return a.expr_ == b.expr_ && a.value_ == b.value_;
  }

 private:
  [[noreturn]] void not_constant() const;

  const Expr* expr_ = nullptr;
  int64_t value_ = 0;
};

// Rounds towards minus infinity; b != 0.
constexpr int64_t floordiv(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
// Has the sign of b; b != 0.
constexpr int64_t mod(int64_t a, int64_t b) { return a - floordiv(a, b) * b; }

namespace detail {
// At least one operand is an expression.
Int add(Int a, Int b);
Int multiply(Int a, Int b);
Int floordiv(Int a, Int b);
Int mod(Int a, Int b);
Int min(Int a, Int b);
Int max(Int a, Int b);

inline bool constants(Int a, Int b) { return a.is_constant() && b.is_constant(); }
}  // namespace detail

inline Int operator+(Int a, Int b) {
  return detail::constants(a, b) ? Int(a.constant() + b.constant()) : detail::add(a, b);
}
inline Int operator*(Int a, Int b) {
  return detail::constants(a, b) ? Int(a.constant() * b.constant()) : detail::multiply(a, b);
}
inline Int operator-(Int a, Int b) {
  return detail::constants(a, b) ? Int(a.constant() - b.constant()) : detail::add(a, Int(-1) * b);
}
// Rounds towards minus infinity, b != 0.
inline Int floordiv(Int a, Int b) {
  return detail::constants(a, b) ? Int(floordiv(a.constant(), b.constant()))
                                 : detail::floordiv(a, b);
}
// Has the sign of b, b != 0.
inline Int mod(Int a, Int b) {
  return detail::constants(a, b) ? Int(mod(a.constant(), b.constant())) : detail::mod(a, b);
}
inline Int min(Int a, Int b) {
  if (!detail::constants(a, b)) return detail::min(a, b);
  return a.constant() < b.constant() ? a : b;
}
inline Int max(Int a, Int b) {
  if (!detail::constants(a, b)) return detail::max(a, b);
  return a.constant() < b.constant() ? b : a;
}

std::string to_string(Int a);

using Dims = std::vector<Int>;

Int product(std::span<const Int> dims);
// Strides of a dense row-major tensor, in elements. Size-0 and size-1 dims count as in
// at::TensorImpl: stride[i] = stride[i+1] * max(size[i+1], 1).
Dims contiguous_strides(std::span<const Int> sizes);
// All constants; throws NotConstant if one is symbolic.
std::vector<int64_t> constants(std::span<const Int> dims);

}  // namespace braze::sym
