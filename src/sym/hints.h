// Values for symbols that have none while tracing.
#pragma once

#include <cstdint>
#include <vector>

#include "sym/condition.h"
#include "sym/expr.h"

namespace braze::sym {

// The hints of all symbols, those of the `movable` ones (by symbol) changed until they lie in their
// ranges and `conditions` hold: sizes that follow from them are then sizes that a call can have.
// Conditions that are not linear in a movable symbol may be left as they are.
//   u0 hint 4096, s0 hint 8, u0 <= s0   ->   u0 = 8
std::vector<int64_t> possible_hints(const ExprArena& arena, const std::vector<bool>& movable,
                                    const std::vector<Condition>& conditions);

}  // namespace braze::sym
