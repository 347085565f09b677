#include "base/arena_layout.h"

#include <gtest/gtest.h>

#include <random>

namespace braze {
namespace {

TEST(ArenaLayout, DeadBlocksMakeRoom) {
  std::vector<ArenaBlock> blocks = {{.bytes = 100, .begin = 0, .end = 1},
                                    {.bytes = 64, .begin = 1, .end = 2},
                                    {.bytes = 128, .begin = 2, .end = 3}};
  EXPECT_EQ(lay_out(blocks), 192);
  EXPECT_EQ(blocks[2].offset, 0);
  EXPECT_EQ(blocks[0].offset, 0);
  EXPECT_EQ(blocks[1].offset, 128);
}

TEST(ArenaLayout, NothingOverlaps) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<ArenaBlock> blocks(random() % 30);
    for (ArenaBlock& block : blocks) {
      block.bytes = random() % 1000;
      block.begin = static_cast<int>(random() % 20);
      block.end = block.begin + static_cast<int>(random() % 8);
    }
    const int64_t total = lay_out(blocks);
    for (const ArenaBlock& a : blocks) {
      EXPECT_EQ(a.offset % kArenaAlignment, 0);
      EXPECT_LE(a.offset + a.bytes, total);
      for (const ArenaBlock& b : blocks) {
        const bool together = a.begin <= b.end && b.begin <= a.end;
        const bool apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
        EXPECT_TRUE(&a == &b || !together || apart);
      }
    }
  }
}

}  // namespace
}  // namespace braze
