// What PyTorch's kernels refuse that its functions for metadata let pass (trace/rules/rules.h).

#include <ATen/ops/empty.h>
#include <ATen/ops/fft_rfft.h>

#include <algorithm>
#include <cmath>

#include "base/is_one_of.h"
#include "trace/constants.h"
#include "trace/rules/rules.h"
#include "trace/shapes/common.h"

namespace braze::trace {
namespace {

constexpr const char* kEmpty = "it is given no elements";
constexpr const char* kOtherSizes = "what it adds has other sizes";

bool is_empty(const at::Tensor& tensor) { return equal(tensor.sym_numel(), 0); }

bool expands_to(const at::Tensor& tensor, const Dims& sizes) {
  const auto rank = static_cast<int64_t>(sizes.size());
  if (tensor.dim() > rank) return false;
  for (int64_t d = 1; d <= tensor.dim(); ++d)
    if (!equal(tensor.sym_size(-d), 1) && !equal(tensor.sym_size(-d), sizes[rank - d]))
      return false;
  return true;
}

bool any_less(const Dims& dims, int64_t least) {
  return std::any_of(dims.begin(), dims.end(),
                     [least](const c10::SymInt& dim) { return less(dim, least); });
}

}  // namespace

// input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
std::string refusals::convolution(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0), weight = call.tensor(1), bias = call.tensor(2);
  const Dims stride = dims_in(call[3]), padding = dims_in(call[4]), dilation = dims_in(call[5]),
             output_padding = dims_in(call[7]);
  const bool transposed = call[6].toBool();
  const c10::SymInt groups = int_in(call[8]);
  if (input.dim() < 3 || weight.dim() != input.dim())
    return "its input and its weight have other dimensions";
  if (is_empty(input)) return kEmpty;
  const c10::SymInt taken = transposed ? weight.sym_size(0) : weight.sym_size(1) * groups;
  if (!equal(input.sym_size(1), taken)) return "its input has other channels";
  const auto spatial = static_cast<size_t>(input.dim() - 2);
  for (const Dims* dims : {&stride, &padding, &dilation, &output_padding})
    if (dims->size() != 1 && dims->size() != spatial)
      return "it has " + std::to_string(spatial) +
             " spatial dimensions and other numbers of windows";
  if (any_less(stride, 1) || any_less(dilation, 1) || any_less(padding, 0) ||
      any_less(output_padding, 0) || less(groups, 1))
    return "its stride, dilation, padding or groups is out of range";
  if (less(weight.sym_size(0), groups) || !equal(weight.sym_size(0) % groups, 0))
    return "its groups do not divide the channels";
  const c10::SymInt channels = transposed ? weight.sym_size(1) * groups : weight.sym_size(0);
  if (bias.defined() && (bias.dim() != 1 || !equal(bias.sym_size(0), channels)))
    return "its bias has other channels";
  if (bias.defined() && bias.scalar_type() != input.scalar_type())
    return "its bias is of another dtype";
  for (size_t i = 0; i < spatial; ++i) {
    const auto of = [i](const Dims& dims) { return dims[dims.size() == 1 ? 0 : i]; };
    if (transposed) {
      if (!less(of(output_padding), of(stride)) && !less(of(output_padding), of(dilation)))
        return "its output padding is not below stride or dilation";
      continue;
    }
    const c10::SymInt reach = of(dilation) * (weight.sym_size(i + 2) - 1) + 1;
    if (!equal(input.sym_numel(), 0) && less(input.sym_size(i + 2) + of(padding) * 2, reach))
      return "its window is larger than the input";
  }
  return "";
}

// input, weight, bias, mean, variance: dimension 1 holds the channels
std::string refusals::batch_norm(const ShapeCall& call) {
  if (call.tensor(0).dim() < 2) return "its input has no channels";
  for (int i = 1; i < call.count(); ++i)
    if (call[i].isTensor() && call.tensor(i).dim() != 1) return "it is given what is no vector";
  return "";
}

// Windows.
std::string refusals::of_nothing(const ShapeCall& call) {
  return is_empty(call.tensor(0)) ? kEmpty : "";
}

// The library has no transform of nothing. Some versions of PyTorch ask it for one.
std::string refusals::transform(const ShapeCall& call) {
  static const bool refused = [] {
    const RealCallScope scope;
    try {
      at::fft_rfft(at::empty({0, 2}));
      return false;
    } catch (const c10::Error&) {
      return true;
    }
  }();
  return refused ? refusals::of_nothing(call) : "";
}

// self; those with a dimension have a function of PyTorch's that looks at it
std::string refusals::extremum(const ShapeCall& call) {
  return call.count() == 1 ? refusals::of_nothing(call) : "";
}

// self, dim, keepdim; without a dimension, nothing has a median of NaN
std::string refusals::order_statistic(const ShapeCall& call) {
  const at::Tensor self = call.tensor(0);
  if (call.count() == 1 || self.dim() == 0) return "";
  const int64_t dim = call[1].toInt();
  if (dim < -self.dim() || dim >= self.dim()) return "";  // refused by PyTorch's function
  return equal(self.sym_size(dim), 0) ? kEmpty : "";
}

// self, ord, dim, keepdim, dtype
std::string refusals::vector_norm(const ShapeCall& call) {
  const c10::IValue& order = call[1];
  const double ord = order.isDouble() ? order.toDouble()
                     : order.isInt()  ? double(order.toInt())
                                      : 2;
  return ord < 0 || std::isinf(ord) ? refusals::of_nothing(call) : "";
}

// self, mat1, mat2
std::string refusals::addmm(const ShapeCall& call) {
  const at::Tensor first = call.tensor(1), second = call.tensor(2);
  if (first.dim() != 2 || second.dim() != 2) return "it is given no matrices";
  return expands_to(call.tensor(0), {first.sym_size(0), second.sym_size(1)}) ? "" : kOtherSizes;
}

// input, weight, bias
std::string refusals::linear(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0), weight = call.tensor(1), bias = call.tensor(2);
  if (!bias.defined() || input.dim() < 1 || weight.dim() != 2) return "";
  Dims sizes(input.sym_sizes().begin(), input.sym_sizes().end());
  sizes.back() = weight.sym_size(0);
  return bias.dim() == 1 && expands_to(bias, sizes) ? "" : kOtherSizes;
}

// self, approximate; in a backward behind the gradient
std::string refusals::gelu(const ShapeCall& call) {
  const c10::IValue& approximate = call[call.count() - 1];
  if (is_one_of(approximate.toStringRef(), {"none", "tanh"})) return "";
  return "it knows no approximation of this name";
}

// self, shifts, dims
std::string refusals::roll(const ShapeCall& call) {
  const size_t shifts = dims_in(call[1]).size(), dims = dims_in(call[2]).size();
  if (shifts == 0) return "it has no shifts";
  return shifts == dims || (shifts == 1 && dims == 0) ? "" : "it has no shift for each dimension";
}

// self, boundaries
std::string refusals::bucketize(const ShapeCall& call) {
  return call.tensor(1).defined() && call.tensor(1).dim() != 1 ? "its boundaries are no vector"
                                                               : "";
}

// self, p, dim, maxnorm
std::string refusals::renorm(const ShapeCall& call) {
  if (is_empty(call.tensor(0))) return kEmpty;
  const int64_t rank = call.tensor(0).dim(), dim = call[2].toInt();
  return dim < -rank || dim >= rank ? "it has no dimension of this number" : "";
}

std::string refusals::matrix(const ShapeCall& call) {
  return call.tensor(0).dim() < 2 ? "it is no matrix" : "";
}

// self, downscale_factor
std::string refusals::pixel_unshuffle(const ShapeCall& call) {
  const at::Tensor self = call.tensor(0);
  const c10::SymInt factor = int_in(call[1]);
  if (self.dim() < 3 || less(factor, 1)) return "";  // refused by PyTorch's function
  for (int64_t dim : {-2, -1})
    if (!equal(self.sym_size(dim) % factor, 0))
      return "its factor does not divide height and width";
  return "";
}

}  // namespace braze::trace
