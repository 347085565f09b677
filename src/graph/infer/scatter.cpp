// Writes by index. What would be an error is refused: the kernels that run later rely on sizes that
// fit.
#include "graph/infer/call.h"
#include "graph/infer/indices.h"

namespace braze::graph {
namespace {

using sym::Int;

bool give_written_copy(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  return call.give_fresh(self.sizes, self.dtype, self.device);
}

// self, dim, index, src or value, ...
bool fits_scatter(const InferCall& call) {
  const TensorType &self = call.tensor(0), &index = call.tensor(2);
  const TensorType* source = call.optional(3);
  const auto dim = call.dim(1, self.rank());
  if (self.rank() == 0 || !dim || index.rank() != self.rank() || index.dtype != DType::kInt64)
    return false;
  if (source && (source->rank() != self.rank() || source->dtype != self.dtype)) return false;
  for (int64_t i = 0; i < self.rank(); ++i) {
    if (i != *dim && !call.ask.at_most(index.sizes[i], self.sizes[i])) return false;
    if (source && !call.ask.at_most(index.sizes[i], source->sizes[i])) return false;
  }
  return true;
}

bool scatter(const InferCall& call) {
  return (call.checked || fits_scatter(call)) && give_written_copy(call);
}
bool scatter_in_place(const InferCall& call) {
  return (call.checked || fits_scatter(call)) && call.give_written();
}

// self, dim, index, source, ...
bool fits_rows(const InferCall& call) {
  const TensorType &self = call.tensor(0), &index = call.tensor(2), &source = call.tensor(3);
  const auto dim = call.dim(1, self.rank());
  if (self.rank() == 0 || !dim || source.rank() != self.rank() || index.rank() != 1 ||
      !is_index(index) || source.dtype != self.dtype)
    return false;
  for (int64_t i = 0; i < self.rank(); ++i)
    if (!call.ask.fit(source.sizes[i], i == *dim ? index.sizes[0] : self.sizes[i])) return false;
  return true;
}

bool index_rows(const InferCall& call) {
  return (call.checked || fits_rows(call)) && give_written_copy(call);
}
bool index_rows_in_place(const InferCall& call) {
  return (call.checked || fits_rows(call)) && call.give_written();
}

// self, dim, index, value: a number
bool fits_fill(const InferCall& call) {
  const TensorType &self = call.tensor(0), &index = call.tensor(2);
  return self.rank() > 0 && index.rank() <= 1 && index.dtype == DType::kInt64;
}

bool index_fill(const InferCall& call) {
  return (call.checked || fits_fill(call)) && call.give_like(call.tensor(0), call.tensor(0).dtype);
}
bool index_fill_in_place(const InferCall& call) {
  return (call.checked || fits_fill(call)) && call.give_written();
}

// self, indices: tensors of integers for dimensions that follow each other; values, ...
bool fits_put(const InferCall& call) {
  const TensorType &self = call.tensor(0), &values = call.tensor(2);
  const auto indices = following_indices(call);
  if (!indices || values.dtype != self.dtype) return false;
  const auto picked = try_broadcast(indices->types, call.ask);
  if (!picked) return false;
  sym::Dims sizes = self.sizes;
  const auto first = sizes.begin() + static_cast<std::ptrdiff_t>(indices->first);
  sizes.erase(first, first + static_cast<std::ptrdiff_t>(indices->types.size()));
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(indices->first), picked->begin(),
               picked->end());
  // The values are repeated to these sizes.
  if (values.sizes.size() > sizes.size()) return false;
  const size_t leading = sizes.size() - values.sizes.size();
  for (size_t i = 0; i < values.sizes.size(); ++i)
    if (values.sizes[i] != Int(1) && !call.ask.expect_equal(values.sizes[i], sizes[leading + i]))
      return false;
  return true;
}

bool index_put(const InferCall& call) {
  return (call.checked || fits_put(call)) && call.give_like(call.tensor(0), call.tensor(0).dtype);
}
bool index_put_in_place(const InferCall& call) {
  return (call.checked || fits_put(call)) && call.give_written();
}

// The inverses of views keep strides with their gaps, but not overlaps.
bool scattered_view(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  for (size_t i = 0; i < self.sizes.size(); ++i)
    if (self.strides[i] == Int(0) && self.sizes[i] != Int(1))
      return call.give_like(self, self.dtype);
  TensorType type = self;
  type.offset = 0;
  return call.give(std::move(type));
}

constexpr InferEntry kScatterRules[] = {
    {"aten.scatter.src", scatter},
    {"aten.scatter.value", scatter},
    {"aten.scatter_add", scatter},
    {"aten.scatter_reduce.two", scatter},
    {"aten.scatter_.src", scatter_in_place},
    {"aten.scatter_.value", scatter_in_place},
    {"aten.scatter_add_", scatter_in_place},
    {"aten.scatter_reduce_.two", scatter_in_place},
    {"aten.index_add", index_rows},
    {"aten.index_add_", index_rows_in_place},
    {"aten.index_copy", index_rows},
    {"aten.index_copy_", index_rows_in_place},
    {"aten.index_fill.int_Scalar", index_fill},
    {"aten.index_fill_.int_Scalar", index_fill_in_place},
    {"aten.index_put", index_put},
    {"aten.index_put_", index_put_in_place},
    {"aten.slice_scatter", scattered_view, InferUse::kPasses},
    {"aten.select_scatter", scattered_view, InferUse::kPasses},
    {"aten.as_strided_scatter", scattered_view, InferUse::kPasses},
    {"aten.diagonal_scatter", scattered_view, InferUse::kPasses},
};

}  // namespace

std::span<const InferEntry> infer_scatter() { return kScatterRules; }

}  // namespace braze::graph
