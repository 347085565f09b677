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
  int64_t constant = 0;
  std::vector<int64_t> coefficient;  // by axis; may be shorter than the number of axes
  std::vector<std::pair<loop::ExprRef, int64_t>> terms;

  int64_t stride(int axis) const;
  bool is_constant() const;
  friend bool operator==(const Affine&, const Affine&) = default;
};

// Axes of extent 1 (which are always 0) drop out. `extent` is by axis number.
Affine affine_of(loop::ExprRef index, std::span<const int64_t> extent);

struct Range {
  int64_t low = 0;
  int64_t high = 0;  // inclusive
};
// Bounds of an integer expression over the axes; nothing where they are not known or do not fit.
std::optional<Range> range_of(loop::ExprRef expr, std::span<const int64_t> extent);

// An i64 expression over axes and constants alone, all of whose values and intermediate results fit
// 32 bits: lanes of it can be half as wide.
bool fits_int32(loop::ExprRef expr, std::span<const int64_t> extent);

}  // namespace braze::codegen::cpp
