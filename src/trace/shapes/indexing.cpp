// Look-ups and rearrangements.
#include <c10/core/WrapDimMinimal.h>

#include "trace/fake_tensor.h"
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

// self, dim, index, sparse_grad
bool gather(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0), index = call.tensor(2);
  if (input.dim() == 0 || index.dim() != input.dim() || index.scalar_type() != at::kLong)
    return false;
  const int64_t dim = c10::maybe_wrap_dim(call[1].toInt(), input.dim());
  for (int64_t i = 0; i < input.dim(); ++i)
    if (i != dim && less(input.sym_size(i), index.sym_size(i))) return false;  // an error
  return call.give(fresh(index.sym_sizes(), input.scalar_type()));
}

// The kernel sees an index tensor as one of the result's rank, whose other dimensions are of size 1:
// where the result's are too, these have a say in its layout.
void add_dims_of_one(Dims& strides, const Dims& sizes, size_t first, const at::Tensor& index) {
  c10::SymInt span = 1;
  for (const c10::SymInt& size : index.sym_sizes()) span = times(span, is(size, 0) ? 1 : size);
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool inside = d >= first && d < first + index.dim();
    if (!inside && is(sizes[d], 1)) strides[d] = d < first ? span : c10::SymInt(1);
  }
}

// self, indices: tensors of integers for dimensions that follow each other.
bool index(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  const auto [first, indices] = following_indices(call);
  if (indices.empty()) return false;
  // The dimensions before the indexed ones, those of the indices together, those after.
  const Dims picked = broadcast(indices);
  const size_t after = first + indices.size();
  Dims sizes = sizes_of(input), strides = strides_of(input);
  sizes.erase(sizes.begin() + first, sizes.begin() + after);
  strides.erase(strides.begin() + first, strides.begin() + after);
  sizes.insert(sizes.begin() + first, picked.begin(), picked.end());
  strides.insert(strides.begin() + first, picked.size(), 0);
  std::vector<Dims> operands{strides};
  for (const at::Tensor& tensor : indices) {
    Dims& own = operands.emplace_back(sizes.size(), 0);
    const size_t begin = first + picked.size() - tensor.dim();
    for (int64_t i = 0; i < tensor.dim(); ++i)
      if (!is(tensor.sym_size(i), 1) || is(sizes[begin + i], 1))
        own[begin + i] = tensor.sym_stride(i);
    if (tensor.dim() == static_cast<int64_t>(picked.size()) && is_row_major(tensor))
      add_dims_of_one(own, sizes, first, tensor);
  }
  return call.give(make_fake(sizes, strides_for_operands(sizes, operands), input.scalar_type()));
}

// self, dims
bool flip(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  return call.give(fresh_like(input, input.scalar_type()));
}

constexpr NamedShape kShapes[] = {
    {"embedding", embedding, false}, {"index_select", index_select, false}, {"flip", flip, false},
    {"gather", gather, true},        {"index.Tensor", index, true},
};

}  // namespace

std::span<const NamedShape> indexing_shapes() { return kShapes; }

}  // namespace braze::trace
