// Fusion, loop order and memory plan: a lowered program in, a fused program out, then a plan.
#pragma once

#include "loop/program.h"

namespace braze::schedule {

struct Options {
  bool fuse = true;
  int64_t threads = 1;
};

// Fuses kernels by the bytes of memory traffic that a fusion saves (vertical: the producer's loads
// disappear; horizontal: shared inputs are read once), never against data dependences, never
// raising the peak of live bytes above that of running one op at a time. Removes stores that no
// one reads any more, merges axes, and orders items so that buffers die early.
void fuse(loop::Program& program, const Options& options);

// Where each computed buffer lives: offsets in one arena, by liveness over the item order.
struct MemoryPlan {
  std::vector<int64_t> offset;  // by buffer; -1: not in the arena
  int64_t arena_bytes = 0;
};
MemoryPlan plan_memory(const loop::Program& program);

}  // namespace braze::schedule
