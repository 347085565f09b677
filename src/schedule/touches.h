// What kernels read and write, by the memory plan.
#pragma once

#include <vector>

#include "schedule/aliases.h"
#include "schedule/schedule.h"

namespace braze::schedule {

// A part of the arena, or all of a place of its own.
struct Touch {
  int place;  // -1: the arena
  int64_t begin, end;
  bool written;
};

bool collide(const Touch& a, const Touch& b);
bool collide(const std::vector<Touch>& a, const std::vector<Touch>& b);

std::vector<Touch> touches_of(const loop::Kernel& kernel, const loop::Program& program,
                              const Aliases& aliases, const MemoryPlan& memory);

}  // namespace braze::schedule
