// Memory of large blocks: regions of address space from which pieces are taken and to which they go
// back, next to each other, so that what dies makes room for whatever comes, of any size. A
// training step needs it: what the forward kept dies while gradients, of other sizes, come to be.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/fork_mutex.h"

namespace braze::runtime {

// Thread-safe. Pieces are taken from the end of the smallest free range that has room, so that
// large ones stay whole: of a training step of BERT 1.07 of what it needs at once is taken, where
// the first range that has room takes 1.23.
class Regions {
 public:
  // What is in use and what is idle are together no more than was in use at once of late, and an
  // eighth; where the next steps fault much of it in again, a quarter or a half. At least
  // `least_idle` bytes stay idle in memory and at most `most_idle`. What goes back beyond that is
  // given to the system, but for the pages at its ends.
  Regions(int64_t least_idle, int64_t most_idle) : least_idle_(least_idle), most_idle_(most_idle) {}
  Regions(const Regions&) = delete;

  // 64-byte aligned; as it was left by whoever had it before. Throws std::bad_alloc.
  char* take(int64_t bytes);
  // What `take` gave for so many bytes.
  void give(char* piece, int64_t bytes);
  // Gives all idle memory back to the system; how many bytes, about.
  int64_t release_idle();

  // So many pieces taken later a peak of use is forgotten.
  static constexpr int64_t kRecent = 4096;

  // Whether that is in one of the regions.
  bool owns(const void* address) const;
  int64_t idle_bytes() const;    // that are in memory, about
  int64_t mapped_bytes() const;  // in all

 private:
  struct Range {
    int64_t bytes = 0;
    int64_t resident = 0;  // of these, at most: used before, and not given back to the system
  };
  using Ranges = std::map<char*, Range>;

  void map(int64_t bytes);
  Ranges::iterator insert(char* begin, Range range);
  Ranges::iterator best_fit(int64_t bytes);
  int64_t may_stay_idle() const;
  // To be called for each piece taken: the peaks of use are those of this and the last so many.
  void count_use(int64_t bytes);
  // Of a piece, what was not in memory.
  void count_faulted(int64_t bytes);
  void release_idle_above(int64_t idle);

  const int64_t least_idle_, most_idle_;
  mutable ForkMutex mutex_;
  Ranges free_;  // by address; no two touch
  std::vector<std::span<char>> regions_;
  int64_t idle_ = 0, mapped_ = 0, used_ = 0;
  int64_t taken_ = 0;                   // pieces, of which kRecent are a period
  int64_t peak_ = 0, peak_before_ = 0;  // of use, in this period and the one before
  int64_t most_resident_ = 0;           // in use and idle, at once
  int64_t refaulted_ = 0;               // in this period, beyond what made that more
  int widened_ = 0;                     // what stays beyond the peak is doubled so often
};

}  // namespace braze::runtime
