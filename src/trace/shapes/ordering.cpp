// Sorting, order statistics and running sums with symbolic sizes; PyTorch's C++ kernels serve
// concrete ones.
#include <c10/core/WrapDimMinimal.h>

#include "trace/fake_tensor.h"
#include "trace/shapes/families.h"

namespace braze::trace {
namespace {

// self, ...
bool sort(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  if (input.is_complex()) return false;  // an error
  return call.give(fresh_like(input, input.scalar_type()), fresh_like(input, at::kLong));
}

// Values and places along one dimension, which is left out or kept with size 1.
bool value_and_place(const ShapeCall& call, int64_t dim, bool keep) {
  const at::Tensor input = call.tensor(0);
  if (input.dim() == 0) return false;
  dim = c10::maybe_wrap_dim(dim, input.dim());
  Dims sizes = sizes_of(input);
  if (!expect_extent(sizes[dim], 1)) return false;  // an error
  if (keep)
    sizes[dim] = 1;
  else
    sizes.erase(sizes.begin() + dim);
  return call.give(fresh(sizes, input.scalar_type()), fresh(sizes, at::kLong));
}

// self, dim, keepdim
bool middle(const ShapeCall& call) {
  return value_and_place(call, call[1].toInt(), call[2].toBool());
}

// self, k, dim, keepdim
bool kth_value(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  if (input.dim() == 0) return false;
  const c10::SymInt k = int_in(call[1]);
  if (less(k, 1) || less(input.sym_size(c10::maybe_wrap_dim(call[2].toInt(), input.dim())), k))
    return false;
  return value_and_place(call, call[2].toInt(), call[3].toBool());
}

// self, dim, dtype
bool cumulative(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  const bool integral = c10::isIntegralType(input.scalar_type(), true);
  return call.give(
      fresh(input.sym_sizes(), dtype_in(call[2], integral ? at::kLong : input.scalar_type())));
}

// self, dim
bool cumulative_extreme(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  return call.give(fresh(input.sym_sizes(), input.scalar_type()),
                   fresh(input.sym_sizes(), at::kLong));
}

bool cumulative_logsumexp(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  if (!c10::isFloatingType(input.scalar_type())) return false;
  return call.give(fresh(input.sym_sizes(), input.scalar_type()));
}

// self, k, dim, largest, sorted
bool topk(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  if (input.dim() == 0) return false;
  Dims sizes = sizes_of(input);
  c10::SymInt& size = sizes[c10::maybe_wrap_dim(call[2].toInt(), input.dim())];
  const c10::SymInt k = int_in(call[1]);
  if (less(k, 0) || less(size, k)) return false;
  size = k;
  return call.give(fresh(sizes, input.scalar_type()), fresh(sizes, at::kLong));
}

// self, shifts, dims: parts joined anew, in rows unless the channels are innermost.
bool roll(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  for (const c10::SymInt& dim : dims_in(call[2]))
    if (less(dim, -input.dim()) || !less(dim, input.dim())) return false;  // an error
  if (input.dim() == 0 || !all_equal(input.sym_strides(), contiguous_strides(input.sym_sizes())))
    return false;
  if (input.dim() > 3 && plain_format(input) != at::MemoryFormat::Contiguous) return false;
  return call.give(fresh(input.sym_sizes(), input.scalar_type()));
}

// self, bins, min, max
bool histogram(const ShapeCall& call) {
  const c10::SymInt bins = int_in(call[1]);
  if (less(bins, 1)) return false;
  return call.give(fresh(Dims{bins}, call.tensor(0).scalar_type()));
}

// sorted_sequence or input first, by operator
bool search(const ShapeCall& call, const at::Tensor& values, bool narrow) {
  return call.give(fresh(values.sym_sizes(), narrow ? at::kInt : at::kLong));
}

// self, boundaries, out_int32, right
bool bucketize(const ShapeCall& call) {
  if (call.tensor(1).dim() != 1) return false;
  return search(call, call.tensor(0), call[2].toBool());
}

// element, test_elements, ...: PyTorch's own metadata has a dimension of size 0.
bool is_number_in(const ShapeCall& call) { return call.give(fresh(Dims{}, at::kBool)); }

constexpr NamedShape kShapes[] = {
    {"isin.Scalar_Tensor", is_number_in, false},
    {"sort", sort, true},
    {"sort.stable", sort, true},
    {"median.dim", middle, true},
    {"nanmedian.dim", middle, true},
    {"mode", middle, true},
    {"kthvalue", kth_value, true},
    {"cumsum", cumulative, true},
    {"cumprod", cumulative, true},
    {"cummax", cumulative_extreme, true},
    {"cummin", cumulative_extreme, true},
    {"logcumsumexp", cumulative_logsumexp, true},
    {"topk", topk, true},
    {"roll", roll, true},
    {"histc", histogram, true},
    {"bucketize.Tensor", bucketize, true},
};

}  // namespace

std::span<const NamedShape> ordering_shapes() { return kShapes; }

}  // namespace braze::trace
