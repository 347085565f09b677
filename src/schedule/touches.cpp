#include "schedule/touches.h"

#include <algorithm>

namespace braze::schedule {

bool collide(const Touch& a, const Touch& b) {
  return a.place == b.place && (a.written || b.written) && a.begin < b.end && b.begin < a.end;
}

bool collide(const std::vector<Touch>& a, const std::vector<Touch>& b) {
  return std::ranges::any_of(a, [&](const Touch& own) {
    return std::ranges::any_of(b, [&](const Touch& other) { return collide(own, other); });
  });
}

std::vector<Touch> touches_of(const loop::Kernel& kernel, const loop::Program& program,
                              const Aliases& aliases, const MemoryPlan& memory) {
  std::vector<Touch> touches;
  for (const loop::BufferParam& param : kernel.params) {
    if (param.by_value) continue;
    const int root = aliases.root(param.buffer);
    Touch touch{root, 0, 1, param.written};
    if (memory.home[root] == Home::kArena) {
      touch.place = -1;
      // With symbolic sizes the offsets are others in each call.
      if (!program.arena) {
        touch.begin = memory.offset[root];
        touch.end = touch.begin + std::max<int64_t>(bytes_of(program.buffers[root]), 1);
      }
    } else if (memory.place[root] >= 0) {
      touch.place = memory.place[root];
    }
    touches.push_back(touch);
  }
  return touches;
}

}  // namespace braze::schedule
