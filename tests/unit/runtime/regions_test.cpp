#include "runtime/regions.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <thread>
#include <vector>

namespace braze::runtime {
namespace {

constexpr int64_t kMiB = 1 << 20;

int64_t resident_bytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(Regions, PiecesDoNotOverlap) {
  Regions regions(64 * kMiB, 64 * kMiB);
  std::map<char*, int64_t> pieces;
  std::mt19937 random(5);
  for (int round = 0; round < 4000; ++round) {
    if (!pieces.empty() && random() % 2) {
      const auto piece = std::next(pieces.begin(), random() % pieces.size());
      // What was written is there until the piece goes back.
      EXPECT_EQ(piece->first[0], static_cast<char>(piece->second));
      EXPECT_EQ(piece->first[piece->second - 1], static_cast<char>(piece->second));
      regions.give(piece->first, piece->second);
      pieces.erase(piece);
      continue;
    }
    const int64_t bytes = 1 + random() % (1 << (random() % 22));
    char* piece = regions.take(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 64, 0u);
    const auto after = pieces.lower_bound(piece);
    if (after != pieces.end()) EXPECT_LE(piece + bytes, after->first);
    if (after != pieces.begin())
      EXPECT_LE(std::prev(after)->first + std::prev(after)->second, piece);
    piece[0] = piece[bytes - 1] = static_cast<char>(bytes);
    pieces.emplace(piece, bytes);
  }
}

TEST(Regions, WhatDiesMakesRoomForOtherSizes) {
  Regions regions(1024 * kMiB, 1024 * kMiB);
  std::vector<char*> small;
  for (int i = 0; i < 40; ++i) small.push_back(regions.take(kMiB));
  const int64_t mapped = regions.mapped_bytes();
  for (char* piece : small) regions.give(piece, kMiB);
  EXPECT_EQ(regions.idle_bytes(), 40 * kMiB);
  char* large = regions.take(40 * kMiB);
  EXPECT_EQ(regions.idle_bytes(), 0);
  EXPECT_EQ(regions.mapped_bytes(), mapped);
  regions.give(large, 40 * kMiB);
}

TEST(Regions, UsedMemoryIsUsedAgainFirst) {
  Regions regions(1024 * kMiB, 1024 * kMiB);
  char* piece = regions.take(3 * kMiB);
  regions.give(piece, 3 * kMiB);
  EXPECT_EQ(regions.take(3 * kMiB), piece);
  char* more = regions.take(100 * kMiB);  // of a region of its own
  regions.give(more, 100 * kMiB);
  EXPECT_EQ(regions.idle_bytes(), 100 * kMiB);
}

TEST(Regions, IdleMemoryIsGivenBack) {
  Regions regions(8 * kMiB, 8 * kMiB);
  char* piece = regions.take(200 * kMiB);
  std::memset(piece, 1, 200 * kMiB);
  const int64_t before = resident_bytes();
  regions.give(piece, 200 * kMiB);
  EXPECT_EQ(regions.idle_bytes(), 0);
  EXPECT_LT(resident_bytes(), before - 150 * kMiB);
  piece = regions.take(8 * kMiB);
  std::memset(piece, 1, 8 * kMiB);
  regions.give(piece, 8 * kMiB);
  EXPECT_EQ(regions.idle_bytes(), 8 * kMiB);
  EXPECT_EQ(regions.release_idle(), 8 * kMiB);
  EXPECT_EQ(regions.idle_bytes(), 0);
}

TEST(Regions, WhatWasInUseOfLateStaysInMemory) {
  Regions regions(8 * kMiB, 256 * kMiB);
  const auto use = [&](int64_t bytes) { regions.give(regions.take(bytes), bytes); };
  use(200 * kMiB);
  EXPECT_EQ(regions.idle_bytes(), 200 * kMiB);
  use(300 * kMiB);  // more than may stay
  EXPECT_LE(regions.idle_bytes(), 256 * kMiB);
  use(100 * kMiB);
  EXPECT_GE(regions.idle_bytes(), 100 * kMiB);
  for (int i = 0; i < 2 * Regions::kRecent; ++i) use(kMiB);
  EXPECT_LE(regions.idle_bytes(), 8 * kMiB);
}

TEST(Regions, WhatIsInUseAndIdleIsNotMuchMoreThanWasInUseAtOnce) {
  Regions regions(kMiB, 1024 * kMiB);
  std::vector<char*> small;
  for (int i = 0; i < 160; ++i) small.push_back(regions.take(kMiB));
  for (int i = 0; i < 160; i += 2) regions.give(small[i], kMiB);
  EXPECT_EQ(regions.idle_bytes(), 80 * kMiB);
  char* large = regions.take(80 * kMiB);  // does not fit between them
  EXPECT_LE(regions.idle_bytes(), 20 * kMiB);
  EXPECT_GE(regions.idle_bytes(), 10 * kMiB);
  regions.give(large, 80 * kMiB);
  for (int i = 1; i < 160; i += 2) regions.give(small[i], kMiB);
}

TEST(Regions, NoMoreIsGivenBackThanIsTooMuch) {
  Regions regions(kMiB, 256 * kMiB);
  char* large = regions.take(40 * kMiB);
  char* piece = regions.take(kMiB);
  regions.give(large, 40 * kMiB);
  // Fits nowhere that is idle: used and idle together stay an eighth above what was in use at once.
  char* larger = regions.take(44 * kMiB);
  EXPECT_EQ(regions.idle_bytes(), 45 * kMiB / 8);
  for (auto [given, bytes] : {std::pair(larger, 44 * kMiB), std::pair(piece, kMiB)})
    regions.give(given, bytes);
}

TEST(Regions, MoreStaysWhereWhatWentBackIsNeededAgain) {
  Regions regions(0, 1024 * kMiB);
  // In each round half of what was free in the one before has holes that are too small.
  const auto round = [&] {
    std::vector<char*> small;
    for (int i = 0; i < 60; ++i) small.push_back(regions.take(kMiB));
    for (int i = 0; i < 60; i += 2) regions.give(small[i], kMiB);
    char* large = regions.take(20 * kMiB);
    const int64_t idle = regions.idle_bytes();
    regions.give(large, 20 * kMiB);
    for (int i = 1; i < 60; i += 2) regions.give(small[i], kMiB);
    return idle;
  };
  const int64_t first = round();
  EXPECT_LE(first, 18 * kMiB);
  int64_t last = 0;
  for (int i = 0; i < 12; ++i) last = round();
  EXPECT_GE(last, first + 6 * kMiB);
  EXPECT_LE(last, 30 * kMiB);
}

TEST(Regions, TheSmallestRangeThatHasRoomIsTaken) {
  Regions regions(1024 * kMiB, 1024 * kMiB);
  char* large = regions.take(8 * kMiB);
  char* between = regions.take(kMiB);
  char* small = regions.take(3 * kMiB);
  char* after = regions.take(kMiB);
  regions.give(large, 8 * kMiB);
  regions.give(small, 3 * kMiB);
  EXPECT_EQ(regions.take(2 * kMiB), small + kMiB);
  EXPECT_EQ(regions.take(8 * kMiB), large);
  regions.give(between, kMiB);
  regions.give(after, kMiB);
}

TEST(Regions, MoreThanTheMachineHasIsRefused) {
  Regions regions(8 * kMiB, 8 * kMiB);
  EXPECT_THROW(regions.take(int64_t{1} << 46), std::bad_alloc);
  regions.give(regions.take(kMiB), kMiB);
}

TEST(Regions, Threads) {
  Regions regions(64 * kMiB, 64 * kMiB);
  const auto work = [&](int seed) {
    std::mt19937 random(seed);
    for (int round = 0; round < 2000; ++round) {
      const int64_t bytes = 1 + random() % kMiB;
      char* piece = regions.take(bytes);
      piece[0] = piece[bytes - 1] = static_cast<char>(seed);
      std::this_thread::yield();
      ASSERT_EQ(piece[0], static_cast<char>(seed));
      ASSERT_EQ(piece[bytes - 1], static_cast<char>(seed));
      regions.give(piece, bytes);
    }
  };
  std::vector<std::thread> threads;
  for (int seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace braze::runtime
