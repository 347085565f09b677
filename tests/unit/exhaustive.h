// The two tiers of the tests that run the host compiler, whose time is the compiler's, and of fuzz.
#pragma once

#include <cstdlib>

namespace braze {

// All instruction sets, all combinations, more random cases: ctest's label `exhaustive`, by hand
// BRAZE_EXHAUSTIVE=1. The other tier, `core`, is for after every edit.
inline bool exhaustive() { return std::getenv("BRAZE_EXHAUSTIVE") != nullptr; }

}  // namespace braze
