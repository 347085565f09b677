// The two tiers of the tests that run the host compiler, whose time is the compiler's, and of fuzz.
#pragma once

#include <cstdlib>

namespace braze {

// All instruction sets, all combinations, more random cases: ctest's label `exhaustive`, by hand
// BRAZE_EXHAUSTIVE=1. The other tier, `core`, is for after every edit.
inline bool exhaustive() { return std::getenv("BRAZE_EXHAUSTIVE") != nullptr; }

// Of fuzz with fresh seeds (tests/fuzz.py): a number from the environment.
inline unsigned number_given(const char* variable, unsigned otherwise) {
  const char* text = std::getenv(variable);
  return text ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : otherwise;
}

}  // namespace braze
