// Writes by index with symbolic sizes; PyTorch's C++ kernels serve concrete ones. What would be an
// error is left to them: the kernels that run later rely on sizes that fit.
#include <c10/core/WrapDimMinimal.h>

#include "trace/fake_tensor.h"
#include "trace/shapes/families.h"

namespace braze::trace {
namespace {

// The tensor itself for the in-place operator, else a fresh one.
bool give_written(const ShapeCall& call, bool keeps_layout) {
  const at::Tensor self = call.tensor(0);
  if (!call.info.mutates.empty()) return call.give(self);
  return call.give(keeps_layout ? fresh_like(self, self.scalar_type())
                                : fresh(self.sym_sizes(), self.scalar_type()));
}

// self, dim, index, src or value, ...
bool scatter(const ShapeCall& call) {
  const at::Tensor self = call.tensor(0), index = call.tensor(2), source = call.tensor(3);
  if (self.dim() == 0 || index.dim() != self.dim() || index.scalar_type() != at::kLong)
    return false;
  if (source.defined() &&
      (source.dim() != self.dim() || source.scalar_type() != self.scalar_type()))
    return false;
  const int64_t dim = c10::maybe_wrap_dim(call[1].toInt(), self.dim());
  for (int64_t i = 0; i < self.dim(); ++i) {
    if (i != dim && less(self.sym_size(i), index.sym_size(i))) return false;
    if (source.defined() && less(source.sym_size(i), index.sym_size(i))) return false;
  }
  return give_written(call, false);
}

// self, dim, index, source, ...
bool index_with_source(const ShapeCall& call) {
  const at::Tensor self = call.tensor(0), index = call.tensor(2), source = call.tensor(3);
  if (self.dim() == 0 || source.dim() != self.dim() || index.dim() != 1 || !is_index(index) ||
      source.scalar_type() != self.scalar_type())
    return false;
  const int64_t dim = c10::maybe_wrap_dim(call[1].toInt(), self.dim());
  for (int64_t i = 0; i < self.dim(); ++i)
    if (!equal(source.sym_size(i), i == dim ? index.sym_size(0) : self.sym_size(i))) return false;
  return give_written(call, false);
}

// self, dim, index, value: a number
bool index_fill(const ShapeCall& call) {
  const at::Tensor self = call.tensor(0), index = call.tensor(2);
  if (self.dim() == 0 || index.dim() > 1 || index.scalar_type() != at::kLong) return false;
  return give_written(call, true);
}

// self, indices: tensors of integers or masks, values, ...
bool index_put(const ShapeCall& call) {
  const at::Tensor self = call.tensor(0), values = call.tensor(2);
  const auto [first, indices] = following_indices(call);
  if (indices.empty() || values.scalar_type() != self.scalar_type()) return false;
  const Dims picked = broadcast(indices);
  Dims sizes = sizes_of(self);
  sizes.erase(sizes.begin() + first, sizes.begin() + first + indices.size());
  sizes.insert(sizes.begin() + first, picked.begin(), picked.end());
  // The values are repeated to these sizes.
  if (values.dim() > static_cast<int64_t>(sizes.size())) return false;
  const size_t leading = sizes.size() - values.dim();
  for (int64_t i = 0; i < values.dim(); ++i)
    if (!is(values.sym_size(i), 1) && !expect_equal(values.sym_size(i), sizes[leading + i]))
      return false;
  return give_written(call, true);
}

constexpr NamedShape kShapes[] = {
    {"scatter.src", scatter, true},
    {"scatter.value", scatter, true},
    {"scatter_add", scatter, true},
    {"scatter_reduce.two", scatter, true},
    {"scatter_.src", scatter, true},
    {"scatter_.value", scatter, true},
    {"scatter_add_", scatter, true},
    {"scatter_reduce_.two", scatter, true},
    {"index_add", index_with_source, true},
    {"index_add_", index_with_source, true},
    {"index_copy", index_with_source, true},
    {"index_copy_", index_with_source, true},
    {"index_fill.int_Scalar", index_fill, true},
    {"index_fill_.int_Scalar", index_fill, true},
    {"index_put", index_put, true},
    {"index_put_", index_put, true},
};

}  // namespace

std::span<const NamedShape> scatter_shapes() { return kShapes; }

}  // namespace braze::trace
