// Reductions and softmax. Their results are contiguous.
#include <c10/core/WrapDimMinimal.h>

#include <algorithm>

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

// Whether there is something to choose from in the dimensions, None or empty: all. Else it is an
// error.
bool has_elements(const at::Tensor& input, const c10::IValue& dims) {
  if (dims.isNone() || dims.toIntVector().empty()) {
    const auto sizes = input.sym_sizes();
    return std::all_of(sizes.begin(), sizes.end(),
                       [](const c10::SymInt& size) { return expect_extent(size, 1); });
  }
  if (input.dim() == 0) return true;
  for (int64_t dim : dims.toIntVector())
    if (!expect_extent(input.sym_size(c10::maybe_wrap_dim(dim, input.dim())), 1)) return false;
  return true;
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
  if (!has_elements(input, c10::IValue()) || input.is_complex()) return false;  // an error
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
  // Errors on the CPU.
  if (call[2].toBool() || !c10::isFloatingType(input.scalar_type())) return false;
  return call.give(fresh(input.sym_sizes(), input.scalar_type()));
}

// self, dim, dtype
bool safe_softmax(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  const at::ScalarType dtype = dtype_in(call[2], input.scalar_type());
  const int64_t dim = int_in(call[1]).guard_int(__FILE__, __LINE__), rank = input.dim();
  if (!c10::isFloatingType(dtype) || dim < -rank || dim >= rank) return false;
  return call.give(fresh(input.sym_sizes(), dtype));
}

// self, dim, keepdim
bool arg_extreme(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  if (input.dim() == 0 || call[1].isNone()) return false;
  const int64_t dim = c10::maybe_wrap_dim(call[1].toInt(), input.dim());
  if (!has_elements(input, c10::List<int64_t>({dim})) || input.is_complex()) return false;
  return call.give(
      fresh(reduced_sizes(input, c10::List<int64_t>({dim}), call[2].toBool()), at::kLong));
}

// self, dims, keepdim
bool extreme_dims(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  if (!has_elements(input, call[1]) || input.is_complex()) return false;
  return call.give(fresh(reduced_sizes(input, call[1], call[2].toBool()), input.scalar_type()));
}

// self, dim, keepdim
bool extreme_with_place(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  if (input.dim() == 0) return false;
  const int64_t dim = c10::maybe_wrap_dim(call[1].toInt(), input.dim());
  if (!has_elements(input, c10::List<int64_t>({dim})) || input.is_complex()) return false;
  const Dims sizes = reduced_sizes(input, c10::List<int64_t>({dim}), call[2].toBool());
  return call.give(fresh(sizes, input.scalar_type()), fresh(sizes, at::kLong));
}

// Logical ones are bool, but of bytes bytes.
at::ScalarType logical(const at::Tensor& input) {
  return input.scalar_type() == at::kByte ? at::kByte : at::kBool;
}

// self
bool logical_all(const ShapeCall& call) {
  return call.give(fresh(Dims{}, logical(call.tensor(0))));
}

// self, dim, keepdim
bool logical_dim(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  const c10::List<int64_t> dims({call[1].toInt()});
  return call.give(fresh(reduced_sizes(input, dims, call[2].toBool()), logical(input)));
}

// self, dim, keepdim, dtype
bool product_dim(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  const bool integral = c10::isIntegralType(input.scalar_type(), true);
  const c10::List<int64_t> dims({call[1].toInt()});
  return call.give(fresh(reduced_sizes(input, dims, call[2].toBool()),
                         dtype_in(call[3], integral ? at::kLong : input.scalar_type())));
}

// self, dim, keepdim
bool logsumexp(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  if (!c10::isFloatingType(input.scalar_type())) return false;
  return call.give(fresh(reduced_sizes(input, call[1], call[2].toBool()), input.scalar_type()));
}

// self, ord, dim, keepdim, dtype
bool vector_norm(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  if (!c10::isFloatingType(input.scalar_type()) || !call[4].isNone()) return false;
  return call.give(fresh(reduced_sizes(input, call[2], call[3].toBool()), input.scalar_type()));
}

// self, target, weight, reduction, ignore_index: a loss for each sample, or one.
bool nll_loss(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0), target = call.tensor(1), weight = call.tensor(2);
  const bool each = call[3].toInt() == 0;
  if (input.dim() != 2 || target.dim() != 1 || !equal(input.sym_size(0), target.sym_size(0)) ||
      (weight.defined() && (weight.dim() != 1 || !equal(weight.sym_size(0), input.sym_size(1)))))
    return false;
  return call.give(fresh(each ? Dims{input.sym_size(0)} : Dims{}, input.scalar_type()),
                   fresh(Dims{}, input.scalar_type()));
}

constexpr NamedShape kShapes[] = {
    {"argmax", arg_extreme, true},
    {"argmin", arg_extreme, true},
    {"amax", extreme_dims, true},
    {"amin", extreme_dims, true},
    {"max.dim", extreme_with_place, true},
    {"min.dim", extreme_with_place, true},
    {"any", logical_all, true},
    {"all", logical_all, true},
    {"any.dim", logical_dim, true},
    {"all.dim", logical_dim, true},
    {"prod", sum_all, true},
    {"prod.dim_int", product_dim, true},
    {"logsumexp", logsumexp, true},
    {"linalg_vector_norm", vector_norm, true},
    {"nll_loss_forward", nll_loss, true},
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
    {"_safe_softmax", safe_softmax, true},
};

}  // namespace

std::span<const NamedShape> reduction_shapes() { return kShapes; }

}  // namespace braze::trace
