// Index checks of statements: a statement that nothing uses is still needed for its checks.
#pragma once

#include <vector>

#include "loop/ir.h"

namespace braze::schedule {

// Whether the kernel makes all index checks of statement `number` without it, for the same points:
// by statements that are not `gone`.
bool checks_stay_without(const loop::Kernel& kernel, size_t number, const std::vector<bool>& gone);

bool has_checks(const loop::Kernel& kernel);

}  // namespace braze::schedule
