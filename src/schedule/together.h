// Kernels of a GPU that one launch can do, as of the parameters of an optimizer.
#pragma once

#include <vector>

#include "schedule/schedule.h"

namespace braze::schedule {

// By item: the first of those that it is launched with, itself where it is alone. To be launched
// with an earlier kernel, one
// * differs from it in the extent of its one axis alone, which is known, and is as small as
//   target::Costs::bytes_launched_together;
// * needs nothing of what is launched from that on, nor stores to what is read or stored there:
//   the blocks of a launch run in any order;
// * stands behind it with nothing but kernels between, so that memory is taken no sooner.
std::vector<int> launched_together(const loop::Program& program, const MemoryPlan& memory,
                                   const target::Target& target);

}  // namespace braze::schedule
