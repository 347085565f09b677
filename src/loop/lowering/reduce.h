// What reductions share: which dims are kept and which are reduced.
#pragma once

#include "loop/lowering/lowering.h"

namespace braze::loop::lowering {

// Dims of an operand, split. The kernel's outer axes are the kept dims, its inner axes the reduced
// ones, both in order.
class ReducedDims {
 public:
  ReducedDims(const Value* operand, std::vector<int64_t> reduced);

  const sym::Dims& kept_sizes() const { return kept_sizes_; }
  const sym::Dims& reduced_sizes() const { return reduced_sizes_; }
  sym::Int count() const { return count_of(reduced_sizes_); }  // elements of one reduction

  // The operand's index from a kernel's axes.
  Index operand_index(IndexView outer, IndexView inner) const;
  // The index of a result of this rank: kept dims only, or with 0 for the reduced ones.
  Index result_index(ExprPool& pool, IndexView outer, int64_t rank) const;

 private:
  std::vector<bool> is_reduced_;
  sym::Dims kept_sizes_, reduced_sizes_;
};

// The dims of a node's argument; None or an empty list: all.
ReducedDims reduced_dims(const Node& node, const Value* operand, int argument);

}  // namespace braze::loop::lowering
