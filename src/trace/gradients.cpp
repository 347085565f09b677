#include "trace/gradients.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <typeinfo>

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

// With one zero among what is multiplied, only that has a gradient. `x`, `y` and `g` broadcast.
Tensor of_prod(const Tensor& g, const Tensor& x, const Tensor& y, const Tensor& zeros,
               const Tensor& product_of_others) {
  const Tensor only_zero = zeros.eq(1).logical_and(x.eq(0));
  return at::where(zeros.eq(0), g * (y / x), g * at::where(only_zero, product_of_others, y));
}

Tensor of_prod(const Tensor& g, const Tensor& given, const Tensor& y) {
  const Tensor x = given.to(g.scalar_type());
  const Tensor is_zero = x.eq(0);
  return of_prod(g, x, y, is_zero.sum(), at::where(is_zero, 1, x).prod());
}

Tensor of_prod(const Tensor& g, const Tensor& given, const Tensor& y, int64_t dim, bool keeps_dim) {
  const Tensor x = given.to(g.scalar_type());
  if (x.dim() == 0) return g;
  const auto kept = [&](const Tensor& t) { return keeps_dim ? t : t.unsqueeze(dim); };
  const Tensor is_zero = x.eq(0);
  return of_prod(kept(g), x, kept(y), is_zero.sum(dim, true),
                 at::where(is_zero, 1, x).prod(dim, true));
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

std::optional<Tensor> gradient(Node& node, const Tensor& g) {
  if (typeid(node) == typeid(nodes::CumprodBackward0)) {
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
  // PyTorch's zeros have no memory, which a trace does not have.
  if (typeid(node) == typeid(nodes::SgnBackward0)) return at::zeros_like(g);
  if (auto found = if_selection<nodes::MaxBackward1>(node, g)) return found;
  if (auto found = if_selection<nodes::MinBackward1>(node, g)) return found;
  if (auto found = if_selection<nodes::MedianBackward0>(node, g)) return found;
  return if_selection<nodes::NanmedianBackward0>(node, g);
}

}  // namespace

std::optional<variable_list> gradient_without_data(Node& node, const variable_list& gradients) {
  if (gradients.size() != 1 || !gradients[0].defined() || gradients[0].is_complex())
    return std::nullopt;
  std::optional<Tensor> found = gradient(node, gradients[0]);
  if (!found) return std::nullopt;
  return variable_list{std::move(*found)};
}

}  // namespace braze::trace
