// Inside of guard/: tensors that may share memory with none of those that are written to.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "guard/tree.h"
#include "pytorch/memory.h"

namespace braze::guard {

// A kDisjointMemory guard.
class MemoryCheck {
 public:
  // `tensors`: of the members of the group, indices into Tree::tensors.
  MemoryCheck(const Guard& guard, std::vector<int> tensors);

  // On tensors whose own guards hold. Linear where they lie in the order of the last call.
  bool holds(const std::vector<TensorNode>& tensors);

  // Two members of the group that overlap and may not, one of them written; of any objects,
  // absent ones null.
  static std::optional<std::pair<size_t, size_t>> overlapping(
      const Guard& guard, std::span<c10::TensorImpl* const> members);

 private:
  bool is_apart(const std::vector<TensorNode>& tensors) const;

  const Guard& guard_;
  const std::vector<int> tensors_;
  std::vector<pytorch::Extent> extents_;  // by memory: from its first tensor to behind its last
  std::vector<int> order_;                // of memories, by address
};

}  // namespace braze::guard
