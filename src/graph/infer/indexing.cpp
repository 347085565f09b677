// Look-ups and rearrangements.
#include <algorithm>

#include "graph/infer/indices.h"

namespace braze::graph {

std::optional<Indices> indices_of(const InferCall& call) {
  const std::vector<Value*> given = tensor_list_arg(call.list(), 1);
  if (given.size() > call.tensor(0).sizes.size()) return std::nullopt;
  Indices result;
  size_t last = 0;
  for (size_t i = 0; i < given.size(); ++i) {
    result.indexed.push_back(given[i] != nullptr);
    if (!given[i]) continue;
    if (!is_index(given[i]->type())) return std::nullopt;
    if (result.types.empty()) result.first = i;
    result.types.push_back(&given[i]->type());
    last = i;
  }
  if (result.types.empty()) return std::nullopt;
  result.adjacent = last - result.first + 1 == result.types.size();
  return result;
}

std::optional<Indices> following_indices(const InferCall& call) {
  std::optional<Indices> result = indices_of(call);
  return result && result->adjacent ? result : std::nullopt;
}

namespace {

using sym::Int;

// weight, indices, ...
bool embedding(const InferCall& call) {
  const TensorType &weight = call.tensor(0), &indices = call.tensor(1);
  if (weight.rank() != 2 || !is_index(indices)) return false;  // an error
  sym::Dims sizes;
  sizes.reserve(indices.sizes.size() + 1);
  sizes = indices.sizes;
  sizes.push_back(weight.sizes[1]);
  return call.give_fresh(std::move(sizes), weight.dtype, weight.device);
}

// grad_output, indices, num_weights, ...
bool embedding_backward(const InferCall& call) {
  const TensorType &grad = call.tensor(0), &indices = call.tensor(1);
  if (!is_index(indices) || grad.rank() != indices.rank() + 1 ||
      !call.ask.all_fit(std::span(grad.sizes).first(indices.sizes.size()), indices.sizes) ||
      call.ask.less(sym_arg(call.list(), 2), 0))
    return false;  // an error
  return call.give_fresh({sym_arg(call.list(), 2), grad.sizes.back()}, grad.dtype, grad.device);
}

// source, place, dim, rows, ...
bool sum_by_place(const InferCall& call) {
  const TensorType& source = call.tensor(0);
  sym::Dims sizes = source.sizes;
  sizes[int_arg(call.list(), 2)] = sym_arg(call.list(), 3);
  return call.give_fresh(std::move(sizes), source.dtype, source.device);
}

// grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq,
// mode, sparse, ...
bool embedding_bag_backward(const InferCall& call) {
  const TensorType& grad = call.tensor(0);
  if (bool_arg(call.list(), 9) || grad.rank() != 2) return false;
  return call.give_fresh({sym_arg(call.list(), 6), grad.sizes[1]}, grad.dtype, grad.device);
}

// self, dim, index
bool index_select(const InferCall& call) {
  const TensorType &self = call.tensor(0), &index = call.tensor(2);
  const auto dim = call.dim(1, self.rank());
  if (index.rank() > 1 || !is_index(index) || !dim) return false;  // an error
  sym::Dims sizes = self.sizes;
  if (!sizes.empty()) sizes[*dim] = index.numel();
  return call.give_fresh(std::move(sizes), self.dtype, self.device);
}

// self, dim, index, sparse_grad
bool gather(const InferCall& call) {
  const TensorType &self = call.tensor(0), &index = call.tensor(2);
  const auto dim = call.dim(1, self.rank());
  if (self.rank() == 0 || !dim || index.rank() != self.rank() || index.dtype != DType::kInt64)
    return false;
  for (int64_t i = 0; i < self.rank(); ++i)
    if (i != *dim && !call.ask.at_most(index.sizes[i], self.sizes[i])) return false;  // an error
  return call.give_fresh(index.sizes, self.dtype, self.device);
}

// The kernel sees an index tensor as one of the result's rank, whose other dimensions are of size
// 1: where the result's are too, these have a say in its layout.
void add_dims_of_one(sym::Dims& strides, const sym::Dims& sizes, size_t place,
                     const TensorType& index) {
  Int span = 1;
  for (const Int& size : index.sizes) span = span * (size == Int(0) ? Int(1) : size);
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool inside = d >= place && d < place + index.sizes.size();
    if (!inside && sizes[d] == Int(1)) strides[d] = d < place ? span : Int(1);
  }
}

// self, indices. Their common sizes stand where the first index stood, or in front when indices are
// apart from each other.
bool index(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const auto indices = indices_of(call);
  if (!indices) return false;
  const auto picked = try_broadcast(indices->types, call.ask);
  if (!picked) return false;
  const auto place = static_cast<std::ptrdiff_t>(indices->adjacent ? indices->first : 0);
  TensorType type;
  type.dtype = self.dtype;
  type.device = self.device;
  sym::Dims& sizes = type.sizes;
  std::vector<sym::Dims> strides(1);  // of the operands of the kernel's loop, `self` first
  strides.reserve(indices->types.size() + 1);
  for (size_t i = 0; i < self.sizes.size(); ++i) {
    if (i < indices->indexed.size() && indices->indexed[i]) continue;
    sizes.push_back(self.sizes[i]);
    strides[0].push_back(self.strides[i]);
  }
  sizes.insert(sizes.begin() + place, picked->begin(), picked->end());
  strides[0].insert(strides[0].begin() + place, picked->size(), 0);
  for (const TensorType* tensor : indices->types) {
    sym::Dims& own = strides.emplace_back(sizes.size(), 0);
    const size_t begin = place + picked->size() - tensor->sizes.size();
    for (size_t i = 0; i < tensor->sizes.size(); ++i)
      if (tensor->sizes[i] != Int(1) || sizes[begin + i] == Int(1))
        own[begin + i] = tensor->strides[i];
    if (tensor->sizes.size() == picked->size() &&
        (tensor->is_contiguous() || is_row_major(*tensor, call.ask)))
      add_dims_of_one(own, sizes, place, *tensor);
  }
  type.strides = iterator_strides(strides, sizes, call.ask);
  return call.give(std::move(type));
}

// self, dims
bool flip(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  return call.give_like(self, self.dtype);
}

// self, diagonal
bool triangle(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  return call.give_fresh(self.sizes, self.dtype, self.device);
}

constexpr InferEntry kIndexingRules[] = {
    {"aten.embedding", embedding, InferUse::kAlways},
    {"aten.embedding_dense_backward", embedding_backward, InferUse::kAlways},
    {"braze.sum_by_place", sum_by_place, InferUse::kPasses},
    {"aten._embedding_bag_backward", embedding_bag_backward, InferUse::kAlways},
    {"aten.index_select", index_select, InferUse::kAlways},
    {"aten.flip", flip, InferUse::kAlways},
    {"aten.gather", gather},
    {"aten.index.Tensor", index},
    {"aten.triu", triangle},
    {"aten.tril", triangle},
};

}  // namespace

std::span<const InferEntry> infer_indexing() { return kIndexingRules; }

}  // namespace braze::graph
