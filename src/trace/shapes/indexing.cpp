// Look-ups and rearrangements.
#include <c10/core/WrapDimMinimal.h>

#include "trace/shapes/families.h"

namespace braze::trace {
namespace {

// weight, indices, ...
bool embedding(const ShapeCall& call) {
  const at::Tensor weight = call.tensor(0), indices = call.tensor(1);
  if (weight.dim() != 2 ||
      (indices.scalar_type() != at::kLong && indices.scalar_type() != at::kInt))
    return false;  // an error
  Dims sizes = sizes_of(indices);
  sizes.push_back(weight.sym_size(1));
  return call.give(fresh(sizes, weight.scalar_type()));
}

// self, dim, index
bool index_select(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0), index = call.tensor(2);
  if (index.dim() > 1 || (index.scalar_type() != at::kLong && index.scalar_type() != at::kInt))
    return false;  // an error
  Dims sizes = sizes_of(input);
  if (!sizes.empty()) sizes[c10::maybe_wrap_dim(call[1].toInt(), input.dim())] = index.sym_numel();
  return call.give(fresh(sizes, input.scalar_type()));
}

// self, dims
bool flip(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  return call.give(fresh_like(input, input.scalar_type()));
}

constexpr NamedShape kShapes[] = {
    {"embedding", embedding, false},
    {"index_select", index_select, false},
    {"flip", flip, false},
};

}  // namespace

std::span<const NamedShape> indexing_shapes() { return kShapes; }

}  // namespace braze::trace
