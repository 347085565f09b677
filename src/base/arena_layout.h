// Places for blocks of memory that live for a while, in one arena.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace braze {

struct ArenaBlock {
  int64_t bytes = 0;
  int begin = 0, end = 0;  // in use from time `begin` to time `end`, both included
  int64_t offset = 0;      // result
};

constexpr int64_t kArenaAlignment = 64;

// Sets the offsets, 64-byte aligned, such that blocks in use at the same time do not overlap;
// returns the size of the arena. Largest blocks first, each at the lowest place that is free for as
// long as it lives.
int64_t lay_out(std::span<ArenaBlock> blocks);

}  // namespace braze
