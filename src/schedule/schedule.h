// Fusion, loop order and memory plan: a lowered program in, a fused program out, then a plan.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "loop/program.h"
#include "target/target.h"

namespace braze::schedule {

// Fuses kernels by the bytes of memory traffic that a fusion saves. Vertical: the consumer's loads
// of what the producer stored disappear. Horizontal: inputs that both read are read once. A fusion
// never goes against data dependences, never joins kernels of two devices, and the peak of live
// bytes never rises above that of running one op at a time. Stores that no one reads any more are
// removed, axes merged, items ordered so that buffers die early, and long reductions of few rows
// cut into parts (split_reductions.h). `alone`, by input: whether write_inputs_in_place
// (in_place.h) is going to be told that it shares memory with no other; none is without.
void fuse(loop::Program& program, const target::Target& target,
          const std::vector<bool>& alone = {});

// Where a buffer's memory is.
enum class Home : uint8_t {
  kNone,    // nothing defines or uses it any more
  kInput,   // the caller's tensor
  kArena,   // `offset` of the arena
  kOutput,  // memory of its own that is handed to the user
  kOwn,     // memory of its own for as long as it is needed
  kExtern,  // the tensor that an extern call returned
  kView,    // its base's memory
};

// Homes and offsets in one arena, by liveness over the item order. Results of extern calls on the
// target's device live where computed buffers do if the op writes into given memory well
// (graph::kFillsGiven). A buffer that a graph output shares memory with is never in the
// arena. The result of a kernel without inner axes whose extents are multiples of
// target::Costs::in_place_multiple may take the place of an operand that dies there, where each
// point reads only what it overwrites; with `own_above` so may that of a call that adds to it
// (aten.addmm). With symbolic sizes the offsets are those of the sizes seen
// when traced, and `place` holds for all sizes.
//
// An arena is there from the first item to the last. With `own_above`, for a program whose inputs
// die while it runs (a backward), buffers of more bytes than that are not in it, so that what is
// taken at any time is what is needed then; an output may take the place of one of them.
struct MemoryPlan {
  std::vector<Home> home;       // by buffer
  std::vector<int64_t> offset;  // by buffer; -1: not in the arena
  // By buffer: the one whose place it takes, itself; -1: neither in the arena nor, with
  // `own_above`, in memory of its own.
  std::vector<int> place;
  int64_t arena_bytes = 0;
};
//
// `launches`: as bring_together (together.h) gives it. What is small keeps its place until the end
// of a launch, so that nothing stands in the way of that.
MemoryPlan plan_memory(const loop::Program& program, const target::Target& target,
                       std::optional<int64_t> own_above = {},
                       const std::vector<std::pair<int, int>>& launches = {});

// Removes the kernels that would copy a buffer onto itself by the plan.
void remove_copies_in_place(loop::Program& program, const MemoryPlan& plan);

}  // namespace braze::schedule
