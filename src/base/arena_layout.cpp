#include "base/arena_layout.h"

#include <algorithm>
#include <numeric>

namespace braze {
namespace {

int64_t aligned(int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

}  // namespace

int64_t lay_out(std::span<ArenaBlock> blocks) {
  std::vector<int> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return blocks[a].bytes > blocks[b].bytes; });
  std::vector<int> placed;  // by offset
  int64_t total = 0;
  for (int number : order) {
    ArenaBlock& block = blocks[number];
    int64_t offset = 0;
    for (int other_number : placed) {
      const ArenaBlock& other = blocks[other_number];
      if (other.begin > block.end || block.begin > other.end) continue;
      if (other.offset >= offset + block.bytes) break;
      offset = std::max(offset, aligned(other.offset + other.bytes));
    }
    block.offset = offset;
    total = std::max(total, aligned(offset + block.bytes));
    auto after = std::upper_bound(placed.begin(), placed.end(), offset,
                                  [&](int64_t o, int other) { return o < blocks[other].offset; });
    placed.insert(after, number);
  }
  return total;
}

}  // namespace braze
