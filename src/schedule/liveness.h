// When the memory of a program is in use, and orders that use less of it.
#pragma once

#include "loop/program.h"
#include "schedule/aliases.h"
#include "schedule/input_writes.h"

namespace braze::schedule {

// By root: items [begin, end] use its memory; begin -1: nothing defines it here (an input, or
// unused). What is needed at the end lives until one past the last item.
struct LiveRange {
  int begin = -1;
  int end = -1;
};
std::vector<LiveRange> live_ranges(const loop::Program& program, const Aliases& aliases);

// Most bytes of computed and extern results that are live at one time.
int64_t peak_live_bytes(const loop::Program& program, const Aliases& aliases,
                        const InputWrites& writes = {});
// The same for these accesses in this order; `bytes` by root, 0 for what is not allocated here.
int64_t peak_live_bytes(const std::vector<const Access*>& accesses,
                        const std::vector<int64_t>& bytes, const std::vector<bool>& needed_at_end);
// By root, for the above.
std::vector<int64_t> allocated_bytes(const loop::Program& program);

// Reorders items so that buffers die early, where that lowers the peak: takes what frees at least
// as much as it allocates first, else what stands first.
void order_items(loop::Program& program, const Aliases& aliases, const InputWrites& writes = {});

// Removes stores that no one reads, reductions that no one uses and kernels without stores; not
// where an index check would go with them.
void remove_dead_stores(loop::Program& program, const Aliases& aliases);

}  // namespace braze::schedule
