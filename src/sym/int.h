// Symbolic integers: sizes, strides and offsets of the whole compiler.
//
// An `Int` is a 64-bit constant or a pointer to an expression interned in a `ShapeEnv`, which must
// outlive it. Arithmetic on constants is plain arithmetic. Equality is structural: two Ints are
// `==` if they are the same constant or the same interned expression.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace braze::sym {

struct Expr;  // sym/expr.h

class Int {
 public:
  Int() = default;
  Int(int64_t value) : value_(value) {}  // NOLINT: implicit by design, a size is a number
  explicit Int(const Expr* expr) : expr_(expr) {}

  bool is_constant() const { return expr_ == nullptr; }
  // The value of a constant; an internal error for an expression.
  int64_t constant() const {
    BRAZE_CHECK(is_constant(), "a symbolic size where a constant is needed");
    return value_;
  }
  const Expr* expr() const { return expr_; }
  // The value seen when the graph was traced (a constant is its own hint).
  int64_t hint() const;

  friend bool operator==(const Int& a, const Int& b) {
    return a.expr_ == b.expr_ && a.value_ == b.value_;
  }

 private:
  const Expr* expr_ = nullptr;
  int64_t value_ = 0;
};

Int operator+(Int a, Int b);
Int operator-(Int a, Int b);
Int operator*(Int a, Int b);
Int floordiv(Int a, Int b);  // rounds towards minus infinity, b != 0
Int mod(Int a, Int b);       // sign of b
Int min(Int a, Int b);
Int max(Int a, Int b);

std::string to_string(Int a);

using Dims = std::vector<Int>;

Int product(std::span<const Int> dims);
// Strides of a dense row-major tensor, in elements. Size-0 and size-1 dims count as in
// at::TensorImpl: stride[i] = stride[i+1] * max(size[i+1], 1).
Dims contiguous_strides(std::span<const Int> sizes);
// All constants; an internal error if one is symbolic.
std::vector<int64_t> constants(std::span<const Int> dims);

}  // namespace braze::sym
