// What can be known about symbolic integers from the ranges of their symbols: for decisions that
// must hold for every value, not for the hint alone.
#pragma once

#include <optional>

#include "sym/expr.h"
#include "sym/int.h"

namespace braze::sym {

// a / b where b divides a without remainder for all values; nothing where that is not known.
//   768*s0*s1 / (64*s1)  ->  12*s0
std::optional<Int> divide_exactly(Int a, Int b);

Range range_of(Int a);

// True only when it holds for all values in range.
bool known_at_least(Int a, int64_t bound);
inline bool known_positive(Int a) {
  return a.is_constant() ? a.constant() > 0 : known_at_least(a, 1);
}
inline bool known_at_most(Int a, Int b) {
  return detail::constants(a, b) ? a.constant() <= b.constant() : known_at_least(b - a, 0);
}
inline bool known_less(Int a, Int b) {
  return detail::constants(a, b) ? a.constant() < b.constant() : known_at_least(b - a, 1);
}

}  // namespace braze::sym
