// Index expressions as linear forms over the loop axes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "loop/ir.h"

namespace braze::codegen::cpp {

// constant + sum of coefficient[a] * axis a + sum of factor * term, where a term is an expression
// that is not linear in the axes (a loaded index, a quotient).
struct Affine {
  sym::Int constant = 0;
  sym::Dims coefficient;  // by axis; may be shorter than the number of axes
  std::vector<std::pair<loop::ExprRef, sym::Int>> terms;

  sym::Int stride(int axis) const;
  bool is_constant() const;
  friend bool operator==(const Affine&, const Affine&) = default;
};

// Axes of extent 1 (which are always 0) drop out. `extent` is by axis number.
Affine affine_of(loop::ExprRef index, std::span<const sym::Int> extent);

struct Range {
  sym::Int low = 0;
  sym::Int high = 0;  // inclusive
};
// Bounds of an integer expression over the axes; nothing where they are not known or do not fit.
std::optional<Range> range_of(loop::ExprRef expr, std::span<const sym::Int> extent);

// Symbolic values that generated code takes to fit 32 bits, because they did when traced.
using Limits = std::vector<sym::Int>;

// An i64 expression over axes and sizes alone, all of whose values and intermediate results fit
// 32 bits: lanes of it can be half as wide. What that takes of symbolic sizes is added to `limits`.
bool fits_int32(loop::ExprRef expr, std::span<const sym::Int> extent, Limits& limits);

// Whether an axis of this extent is always at 0.
inline bool is_trivial(sym::Int extent) { return extent.is_constant() && extent.constant() <= 1; }

}  // namespace braze::codegen::cpp
