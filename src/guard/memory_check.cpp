#include "guard/memory_check.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace braze::guard {

using pytorch::Extent;

namespace {

bool has_place(const c10::TensorImpl* tensor) {
  return tensor != nullptr && tensor->layout() == c10::kStrided &&
         !tensor->has_symbolic_sizes_strides() && tensor->has_storage();
}

}  // namespace

MemoryCheck::MemoryCheck(const Guard& guard, std::vector<int> tensors)
    : guard_(guard), tensors_(std::move(tensors)) {
  for (const int tensor : tensors_)
    BRAZE_CHECK(tensor >= 0, "a member of a guard about memory has no tensor guard");
  const std::vector<int>& memories = guard.details->memories;
  extents_.resize(static_cast<size_t>(1 + *std::max_element(memories.begin(), memories.end())));
  order_.resize(extents_.size());
  std::iota(order_.begin(), order_.end(), 0);
}

bool MemoryCheck::holds(const std::vector<TensorNode>& tensors) {
  const std::vector<int>& memories = guard_.details->memories;
  if (memories[1] == 1 && guard_.details->written == 1) {  // the first tensor alone is written
    const Extent written = pytorch::extent_of(*tensors[tensors_[0]].impl);
    for (size_t i = 1; i < tensors_.size(); ++i)
      if (overlap(written, pytorch::extent_of(*tensors[tensors_[i]].impl))) return false;
    return true;
  }
  std::fill(extents_.begin(), extents_.end(), Extent{});
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Extent extent = pytorch::extent_of(*tensors[tensors_[i]].impl);
    if (extent.empty()) continue;
    Extent& memory = extents_[memories[i]];
    memory = memory.empty()
                 ? extent
                 : Extent{std::min(memory.begin, extent.begin), std::max(memory.end, extent.end)};
  }
  for (size_t i = 1; i < order_.size(); ++i) {
    const int memory = order_[i];
    size_t at = i;
    for (; at > 0 && extents_[memory].begin < extents_[order_[at - 1]].begin; --at)
      order_[at] = order_[at - 1];
    order_[at] = memory;
  }
  uintptr_t end = 0, end_of_written = 0;  // of all that begin before
  for (const int memory : order_) {
    const Extent& extent = extents_[memory];
    if (extent.empty()) continue;
    const bool is_written = memory < static_cast<int>(guard_.details->written);
    // Between the tensors of one memory others may lie.
    if (extent.begin < (is_written ? end : end_of_written)) return is_apart(tensors);
    end = std::max(end, extent.end);
    if (is_written) end_of_written = std::max(end_of_written, extent.end);
  }
  return true;
}

bool MemoryCheck::is_apart(const std::vector<TensorNode>& tensors) const {
  std::vector<c10::TensorImpl*> members;
  for (const int tensor : tensors_) members.push_back(tensors[tensor].impl);
  return !overlapping(guard_, members);
}

std::optional<std::pair<size_t, size_t>> MemoryCheck::overlapping(
    const Guard& guard, std::span<c10::TensorImpl* const> members) {
  const std::vector<int>& memories = guard.details->memories;
  const int written = static_cast<int>(guard.details->written);
  for (size_t i = 0; i < members.size() && memories[i] < written; ++i)
    for (size_t j = i + 1; j < members.size(); ++j)
      if (memories[i] != memories[j] && has_place(members[i]) && has_place(members[j]) &&
          overlap(pytorch::extent_of(*members[i]), pytorch::extent_of(*members[j])))
        return std::pair{i, j};
  return std::nullopt;
}

}  // namespace braze::guard
