// Reductions and softmax. Their results are contiguous.
#include <c10/core/WrapDimMinimal.h>

#include "trace/shapes/families.h"

namespace braze::trace {
namespace {

// `dims` None or empty: all.
Dims reduced_sizes(const at::Tensor& input, const c10::IValue& dims, bool keep) {
  c10::SmallVector<bool, 6> reduced(input.dim(), true);
  if (!dims.isNone() && !dims.toIntVector().empty()) {
    reduced.assign(input.dim(), false);
    for (int64_t dim : dims.toIntVector())
      if (input.dim() > 0) reduced[c10::maybe_wrap_dim(dim, input.dim())] = true;
  }
  Dims sizes;
  for (int64_t i = 0; i < input.dim(); ++i) {
    if (!reduced[i])
      sizes.push_back(input.sym_size(i));
    else if (keep)
      sizes.push_back(1);
  }
  return sizes;
}

// self, dim, keepdim, dtype
bool sum_dims(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  const bool integral = c10::isIntegralType(input.scalar_type(), true);
  return call.give(fresh(reduced_sizes(input, call[1], call[2].toBool()),
                         dtype_in(call[3], integral ? at::kLong : input.scalar_type())));
}

bool mean_dims(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  const at::ScalarType dtype = dtype_in(call[3], input.scalar_type());
  if (!c10::isFloatingType(dtype) && !c10::isComplexType(dtype)) return false;  // an error
  return call.give(fresh(reduced_sizes(input, call[1], call[2].toBool()), dtype));
}

// self, dtype
bool sum_all(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  const bool integral = c10::isIntegralType(input.scalar_type(), true);
  return call.give(fresh(Dims{}, dtype_in(call[1], integral ? at::kLong : input.scalar_type())));
}

bool mean_all(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  const at::ScalarType dtype = dtype_in(call[1], input.scalar_type());
  if (!c10::isFloatingType(dtype) && !c10::isComplexType(dtype)) return false;
  return call.give(fresh(Dims{}, dtype));
}

// self
bool extreme_all(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  if (!input.unsafeGetTensorImpl()->has_symbolic_sizes_strides() && input.numel() == 0)
    return false;  // an error
  return call.give(fresh(Dims{}, input.scalar_type()));
}

// self, dim, *, correction, keepdim
bool variance(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  if (!c10::isFloatingType(input.scalar_type())) return false;
  return call.give(fresh(reduced_sizes(input, call[1], call[3].toBool()), input.scalar_type()));
}

bool variance_and_mean(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  if (!c10::isFloatingType(input.scalar_type())) return false;
  const Dims sizes = reduced_sizes(input, call[1], call[3].toBool());
  return call.give(fresh(sizes, input.scalar_type()), fresh(sizes, input.scalar_type()));
}

// self, dim, half_to_float
bool softmax(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  if (call[2].toBool()) return false;  // an error on the CPU
  return call.give(fresh(input.sym_sizes(), input.scalar_type()));
}

// self, dim, keepdim
bool arg_extreme(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  if (input.dim() == 0 || call[1].isNone()) return false;
  const int64_t dim = c10::maybe_wrap_dim(call[1].toInt(), input.dim());
  return call.give(
      fresh(reduced_sizes(input, c10::List<int64_t>({dim}), call[2].toBool()), at::kLong));
}

// self, dims, keepdim
bool extreme_dims(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  return call.give(fresh(reduced_sizes(input, call[1], call[2].toBool()), input.scalar_type()));
}

// self, dim, keepdim
bool extreme_with_place(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  if (input.dim() == 0) return false;
  const int64_t dim = c10::maybe_wrap_dim(call[1].toInt(), input.dim());
  const Dims sizes = reduced_sizes(input, c10::List<int64_t>({dim}), call[2].toBool());
  return call.give(fresh(sizes, input.scalar_type()), fresh(sizes, at::kLong));
}

// self, dim, dtype
bool cumulative(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  const bool integral = c10::isIntegralType(input.scalar_type(), true);
  return call.give(
      fresh(input.sym_sizes(), dtype_in(call[2], integral ? at::kLong : input.scalar_type())));
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

constexpr NamedShape kShapes[] = {
    {"argmax", arg_extreme, true},
    {"argmin", arg_extreme, true},
    {"amax", extreme_dims, true},
    {"amin", extreme_dims, true},
    {"max.dim", extreme_with_place, true},
    {"min.dim", extreme_with_place, true},
    {"cumsum", cumulative, true},
    {"topk", topk, true},
    {"max", extreme_all, false},
    {"min", extreme_all, false},
    {"var.correction", variance, false},
    {"std.correction", variance, false},
    {"var_mean.correction", variance_and_mean, false},
    {"std_mean.correction", variance_and_mean, false},
    {"sum.dim_IntList", sum_dims, true},
    {"mean.dim", mean_dims, true},
    {"sum", sum_all, true},
    {"mean", mean_all, true},
    {"_softmax", softmax, true},
    {"_log_softmax", softmax, true},
};

}  // namespace

std::span<const NamedShape> reduction_shapes() { return kShapes; }

}  // namespace braze::trace
