// Kernels of a GPU that one launch can do, as of the parameters of an optimizer.
#pragma once

#include <utility>
#include <vector>

#include "schedule/schedule.h"

namespace braze::schedule {

// A kernel can be launched with an earlier one
// * that it is equal to, but for its buffers, and, if it has one axis that is not reduced, for the
//   extent of that, where extents, and all sizes in it, are numbers;
// * if it is as small as target::Costs::bytes_launched_together;
// * if it needs nothing of what is launched from that one on, nor stores to what is read or stored
//   there: the blocks of a launch run in any order;
// * with nothing but kernels between, so that memory is taken no sooner.

// Puts what can be launched together side by side, before memory is planned: kernels that store
// little beside outputs and what the caller gave. By item, in the new order: the first and the last
// of those that it may be launched with.
std::vector<std::pair<int, int>> bring_together(loop::Program& program,
                                                const target::Target& target);

// By item: the first of those that it is launched with, itself where it is alone.
std::vector<int> launched_together(const loop::Program& program, const MemoryPlan& memory,
                                   const target::Target& target);

}  // namespace braze::schedule
