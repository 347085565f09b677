// Items that may refuse the data of a call, which then runs again in eager from its inputs as they
// were (graph/data_errors.h).
#pragma once

#include <vector>

#include "loop/program.h"
#include "schedule/aliases.h"

namespace braze::schedule {

// By item: whether it may refuse data that no item before it has refused. The index check of a
// gather that a backward makes again, for the same indices, refuses nothing.
std::vector<bool> refusals(const loop::Program& program, const Aliases& aliases);

}  // namespace braze::schedule
