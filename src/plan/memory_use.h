// The memory that a module takes by its steps, for people: what `explain` estimates.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/module.h"

namespace braze::plan {

// In bytes, beside inputs: intermediates and outputs, for the sizes that were traced. What an
// operator takes for itself while it runs is not known here.
struct MemoryUse {
  int64_t peak = 0;  // in use at one time, at most
  int64_t held = 0;  // at the end: outputs
};

// `handed_over`: by input, whether its memory goes where its last reader has run; such inputs count
// from the beginning. Empty: none does.
MemoryUse memory_use(const Module& module, const std::vector<bool>& handed_over = {});

}  // namespace braze::plan
