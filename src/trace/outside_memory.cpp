#include "trace/outside_memory.h"

#include <algorithm>
#include <iterator>

namespace braze::trace {

std::vector<int> OutsideMemory::add(pytorch::Extent extent, int number) {
  std::vector<int> numbers{number};
  if (extent.empty()) return numbers;
  uintptr_t begin = extent.begin;
  Memory joined{extent.end, number};
  auto next = memories_.lower_bound(begin);
  if (next != memories_.begin() && std::prev(next)->second.end > begin) --next;
  while (next != memories_.end() && next->first < extent.end) {
    const Memory& other = next->second;
    const Sharing both = next->first == extent.begin ? Sharing::kAligned : Sharing::kMixed;
    joined.sharing = std::max({joined.sharing, other.sharing, both});
    joined.end = std::max(joined.end, other.end);
    begin = std::min(begin, next->first);
    numbers.push_back(other.number);
    next = memories_.erase(next);
  }
  std::sort(numbers.begin(), numbers.end());
  joined.number = numbers.front();
  memories_.emplace(begin, joined);
  return numbers;
}

OutsideMemory::Sharing OutsideMemory::sharing(int number) const {
  for (const auto& [begin, memory] : memories_)
    if (memory.number == number) return memory.sharing;
  return Sharing::kNone;
}

}  // namespace braze::trace
