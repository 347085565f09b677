#include "trace/gradients.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <algorithm>
#include <cmath>
#include <typeinfo>
#include <vector>

namespace braze::trace {
namespace {

using at::Tensor;
using torch::autograd::Node;
using torch::autograd::variable_list;
namespace nodes = torch::autograd::generated;

Tensor sum_from_here(const Tensor& x, int64_t dim) { return x.flip(dim).cumsum(dim).flip(dim); }

// y_j = x_0 ... x_j. Before the first zero of a row, dL/dx_k is the sum of g_j y_j from k on, over
// x_k; at the first zero it is the sum of g_j times what y_j would be without it; behind it, 0.
Tensor of_cumprod(const Tensor& g, const Tensor& x, const Tensor& y, int64_t dim) {
  if (x.dim() == 0) return g;
  const Tensor is_zero = x.eq(0), zeros = is_zero.cumsum(dim);
  const Tensor before = zeros.eq(0), up_to_second = zeros.eq(1);
  const Tensor first = up_to_second.logical_and(is_zero);
  const Tensor ahead = sum_from_here(at::where(before, y * g, 0), dim).div(x);
  const Tensor without_first = at::where(first, 1, x).cumprod(dim, y.scalar_type());
  const Tensor at_first = sum_from_here(at::where(up_to_second, without_first * g, 0), dim);
  return at::where(before, ahead, at::where(first, at_first, 0));
}

// Of each element, the product of those before and behind it.
Tensor product_of_others(const Tensor& x, int64_t dim) {
  const Tensor one = at::ones_like(x.slice(dim, 0, 1));
  const Tensor before = at::cat({one, x.slice(dim, 0, -1)}, dim).cumprod(dim);
  const Tensor behind = at::cat({x.slice(dim, 1), one}, dim).flip(dim).cumprod(dim).flip(dim);
  return before * behind;
}

// With one zero among what is multiplied, only that has a gradient, which others have a part in: a
// gradient that is differentiated itself is that of all factors. `y` and `g` keep the dim; without
// one, all of `x` is multiplied. Strides are those of `x`, as in eager.
Tensor of_prod(const Tensor& g, const Tensor& x, const Tensor& y, std::optional<int64_t> dim) {
  const Tensor is_zero = x.eq(0), zeros = dim ? is_zero.sum(*dim, true) : is_zero.sum();
  const Tensor without_zeros = at::where(is_zero, 1, x);
  if (at::GradMode::is_enabled()) {
    const Tensor others = dim ? product_of_others(x, *dim)
                              : product_of_others(x.flatten(), 0).reshape_symint(x.sym_sizes());
    return at::where(zeros.eq(0), g * (y / without_zeros), g * others);
  }
  const Tensor product = dim ? without_zeros.prod(*dim, true) : without_zeros.prod();
  const Tensor only_zero = zeros.eq(1).logical_and(is_zero);
  return at::where(zeros.eq(0), g * (y / x), g * at::where(only_zero, product, y));
}

Tensor of_prod(const Tensor& g, const Tensor& given, const Tensor& y) {
  return of_prod(g, given.to(g.scalar_type()), y, std::nullopt);
}

Tensor of_prod(const Tensor& g, const Tensor& given, const Tensor& y, int64_t dim, bool keeps_dim) {
  const Tensor x = given.to(g.scalar_type());
  if (x.dim() == 0) return g;
  const auto kept = [&](const Tensor& t) { return keeps_dim ? t : t.unsqueeze(dim); };
  return of_prod(kept(g), x, kept(y), std::optional(dim));
}

// Shared by all places that have the value.
Tensor of_selection(const Tensor& g, const Tensor& x, const Tensor& value) {
  const Tensor selected = at::where(value.isnan(), x.isnan(), x.eq(value));
  return at::where(selected, g / selected.sum(), 0);
}

template <class Selection>
std::optional<Tensor> if_selection(Node& node, const Tensor& g) {
  if (typeid(node) != typeid(Selection)) return std::nullopt;
  auto& selection = static_cast<Selection&>(node);
  return of_selection(g, selection.self_.unpack(), selection.result_.unpack(node.getptr()));
}

// What a variance goes over.
struct Varied {
  Tensor x;
  std::vector<int64_t> dims;
  c10::SymInt count = 1, freedom;
  bool keeps_dims;

  Tensor spread(Tensor t) const {
    if (!keeps_dims)
      for (const int64_t dim : dims) t = t.unsqueeze(dim);
    return t;
  }
};

// Nothing where sizes do not vary or PyTorch's formula has something special.
template <class Variance>
std::optional<Varied> varied(Variance& node) {
  Varied result{.x = node.self_.unpack(), .keeps_dims = node.keepdim};
  const int64_t rank = result.x.dim();
  const at::Scalar correction = node.correction.value_or(1);
  if (!result.x.unsafeGetTensorImpl()->has_symbolic_sizes_strides() || result.x.is_complex() ||
      correction.toDouble() != std::floor(correction.toDouble()))
    return std::nullopt;
  if (node.dim.list && !node.dim.list->empty())
    for (const int64_t dim : *node.dim.list) result.dims.push_back(dim < 0 ? dim + rank : dim);
  else
    for (int64_t dim = 0; dim < rank; ++dim) result.dims.push_back(dim);
  std::ranges::sort(result.dims);
  for (const int64_t dim : result.dims) result.count = result.count * result.x.sym_size(dim);
  result.freedom = result.count - static_cast<int64_t>(correction.toDouble());
  if (result.freedom <= 0) return std::nullopt;
  return result;
}

Tensor of_variance(const Tensor& g, const Varied& v) {
  return v.spread(g) / v.freedom * 2 * (v.x - v.x.mean(v.dims, /*keepdim=*/true));
}

Tensor of_deviation(const Tensor& g, const Tensor& deviation, const Varied& v) {
  return of_variance((g / (deviation * 2)).masked_fill(deviation == 0, 0), v);
}

// Of the mean beside a variance or deviation whose gradient may be undefined.
variable_list with_mean(Tensor found, const Tensor& g, const Varied& v) {
  if (g.defined()) {
    const Tensor of_mean = v.spread(g).expand_symint(v.x.sym_sizes()) / v.count;
    found = found.defined() ? found + of_mean : of_mean;
  }
  return {std::move(found)};
}

std::optional<variable_list> gradient_of_spread(Node& node, const variable_list& g) {
  if (typeid(node) == typeid(nodes::VarMeanBackward0)) {
    const auto v = varied(static_cast<nodes::VarMeanBackward0&>(node));
    if (!v) return std::nullopt;
    return with_mean(g[0].defined() ? of_variance(g[0], *v) : Tensor(), g[1], *v);
  }
  if (typeid(node) == typeid(nodes::StdMeanBackward0)) {
    auto& deviation = static_cast<nodes::StdMeanBackward0&>(node);
    const auto v = varied(deviation);
    if (!v) return std::nullopt;
    const Tensor result = deviation.result0_.unpack(node.getptr());
    return with_mean(g[0].defined() ? of_deviation(g[0], result, *v) : Tensor(), g[1], *v);
  }
  return std::nullopt;
}

std::optional<Tensor> gradient(Node& node, const Tensor& g) {
  // One that is differentiated itself needs the product of every two, which is left to PyTorch.
  if (typeid(node) == typeid(nodes::CumprodBackward0) && !at::GradMode::is_enabled()) {
    auto& cumprod = static_cast<nodes::CumprodBackward0&>(node);
    return of_cumprod(g.to(cumprod.self_scalar_type), cumprod.self_.unpack(),
                      cumprod.result_.unpack(node.getptr()), cumprod.dim);
  }
  if (typeid(node) == typeid(nodes::ProdBackward0)) {
    auto& prod = static_cast<nodes::ProdBackward0&>(node);
    return of_prod(g, prod.self_.unpack(), prod.result_.unpack(node.getptr()));
  }
  if (typeid(node) == typeid(nodes::ProdBackward1)) {
    auto& prod = static_cast<nodes::ProdBackward1&>(node);
    return of_prod(g, prod.self_.unpack(), prod.result_.unpack(node.getptr()), prod.dim,
                   prod.keepdim);
  }
  if (typeid(node) == typeid(nodes::VarBackward0)) {
    const auto v = varied(static_cast<nodes::VarBackward0&>(node));
    return v ? std::optional(of_variance(g, *v)) : std::nullopt;
  }
  if (typeid(node) == typeid(nodes::StdBackward0)) {
    auto& deviation = static_cast<nodes::StdBackward0&>(node);
    const auto v = varied(deviation);
    if (!v) return std::nullopt;
    return of_deviation(g, deviation.result_.unpack(node.getptr()), *v);
  }
  // PyTorch's zeros have no memory, which a trace does not have.
  if (typeid(node) == typeid(nodes::SgnBackward0)) return at::zeros_like(g);
  if (auto found = if_selection<nodes::MaxBackward1>(node, g)) return found;
  if (auto found = if_selection<nodes::MinBackward1>(node, g)) return found;
  if (auto found = if_selection<nodes::MedianBackward0>(node, g)) return found;
  return if_selection<nodes::NanmedianBackward0>(node, g);
}

}  // namespace

std::optional<variable_list> gradient_without_data(Node& node, const variable_list& gradients) {
  if (gradients.size() == 2) return gradient_of_spread(node, gradients);
  if (gradients.size() != 1 || !gradients[0].defined() || gradients[0].is_complex())
    return std::nullopt;
  std::optional<Tensor> found = gradient(node, gradients[0]);
  if (!found) return std::nullopt;
  return variable_list{std::move(*found)};
}

}  // namespace braze::trace
