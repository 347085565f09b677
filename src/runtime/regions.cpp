#include "runtime/regions.h"

#include <sys/mman.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <new>

namespace braze::runtime {
namespace {

constexpr int64_t kRegionAlignment = 64;
constexpr int64_t kPage = 4096;
constexpr int64_t kSmallestRegion = 64ll << 20;
// Beyond the peak of use an eighth of it stays in memory, for what does not fit where it is free;
// twice and four times that where memory that went back is needed again.
constexpr int64_t kSlack = 8;
constexpr int kMostWidened = 2;
// Of the peak of use, faulted in again within a period, so that more stays.
constexpr int64_t kRefaultedShare = 2;

int64_t rounded_up(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

// The whole pages of that memory, to the system. False: there are none, or it does not take them.
bool give_back(char* memory, int64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t first = (begin + kPage - 1) / kPage * kPage;
  const uintptr_t last = (begin + bytes) / kPage * kPage;
  return first < last && madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED) == 0;
}

}  // namespace

char* Regions::take(int64_t bytes) {
  const int64_t size = std::max(rounded_up(bytes, kRegionAlignment), kRegionAlignment);
  std::lock_guard lock(mutex_);
  for (bool has_mapped = false;; has_mapped = true) {
    if (const auto range = best_fit(size); range != free_.end()) {
      Range& free = range->second;
      char* piece = range->first + (free.bytes - size);
      const int64_t resident = std::min(free.resident, size);
      free.bytes -= size;
      free.resident -= resident;
      idle_ -= resident;
      if (free.bytes == 0) free_.erase(range);
      count_use(size);
      if (resident < size) {
        release_idle_above(may_stay_idle());
        count_faulted(size - resident);
      }
      return piece;
    }
    if (has_mapped) throw std::bad_alloc();
    map(size);
  }
}

// The smallest free range that has room, of those the one of the highest address.
Regions::Ranges::iterator Regions::best_fit(int64_t bytes) {
  auto best = free_.end();
  for (auto range = free_.begin(); range != free_.end(); ++range)
    if (range->second.bytes >= bytes &&
        (best == free_.end() || range->second.bytes <= best->second.bytes))
      best = range;
  return best;
}

void Regions::give(char* piece, int64_t bytes) {
  const int64_t size = std::max(rounded_up(bytes, kRegionAlignment), kRegionAlignment);
  std::lock_guard lock(mutex_);
  used_ -= size;
  const bool stays = idle_ + size <= may_stay_idle() || !give_back(piece, size);
  if (stays) idle_ += size;
  insert(piece, {size, stays ? size : 0});
}

int64_t Regions::release_idle() {
  std::lock_guard lock(mutex_);
  const int64_t before = idle_;
  release_idle_above(0);
  most_resident_ = used_;
  refaulted_ = 0;
  widened_ = 0;
  return before - idle_;
}

void Regions::release_idle_above(int64_t idle) {
  while (idle_ > idle) {
    const auto largest = std::ranges::max_element(
        free_, {}, [](const Ranges::value_type& free) { return free.second.resident; });
    if (largest == free_.end() || largest->second.resident == 0) return;
    Range& range = largest->second;
    // Pieces are taken from its end, so what is before is needed last. Less than a page stays.
    const int64_t released = std::min(rounded_up(idle_ - idle, kPage), range.resident);
    give_back(largest->first, range.bytes - (range.resident - released));
    idle_ -= released;
    range.resident -= released;
  }
}

int64_t Regions::may_stay_idle() const {
  const int64_t peak = std::max(peak_, peak_before_);
  const int64_t slack = (peak / kSlack) << widened_;
  return std::clamp(peak + slack - used_, least_idle_, most_idle_);
}

void Regions::count_use(int64_t bytes) {
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  if (++taken_ % kRecent != 0) return;
  peak_before_ = peak_;
  peak_ = used_;
  refaulted_ = 0;
  release_idle_above(may_stay_idle());
}

void Regions::count_faulted(int64_t bytes) {
  const int64_t grown = std::max<int64_t>(0, used_ + idle_ - most_resident_);
  most_resident_ += grown;
  refaulted_ += std::max<int64_t>(0, bytes - grown);
  if (refaulted_ * kRefaultedShare < std::max(peak_, peak_before_) || widened_ == kMostWidened)
    return;
  refaulted_ = 0;
  ++widened_;
}

bool Regions::owns(const void* address) const {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(regions_, [&](std::span<char> region) {
    return std::less_equal<>()(region.data(), address) &&
           std::less<>()(address, region.data() + region.size());
  });
}

int64_t Regions::idle_bytes() const {
  std::lock_guard lock(mutex_);
  return idle_;
}

int64_t Regions::mapped_bytes() const {
  std::lock_guard lock(mutex_);
  return mapped_;
}

void Regions::map(int64_t bytes) {
  const int64_t size = rounded_up(std::max(bytes, kSmallestRegion), kPage);
  void* region = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (region == MAP_FAILED) throw std::bad_alloc();
  mapped_ += size;
  regions_.emplace_back(static_cast<char*>(region), size);
  insert(static_cast<char*>(region), {size, 0});
}

Regions::Ranges::iterator Regions::insert(char* begin, Range range) {
  auto after = free_.lower_bound(begin);
  if (after != free_.end() && begin + range.bytes == after->first) {
    range.bytes += after->second.bytes;
    range.resident += after->second.resident;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second.bytes == begin) {
      before->second.bytes += range.bytes;
      before->second.resident += range.resident;
      return before;
    }
  }
  return free_.emplace_hint(after, begin, range);
}

}  // namespace braze::runtime
