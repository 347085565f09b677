// Composite operators whose kernels ask for sizes as numbers though what they are made of does not:
// `rms_norm`, `take_along_dim`, `max_pool1d`, and resampling to a given size. Where an argument is
// not as usual, PyTorch's kernel says what is wrong with it.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/max_pool1d.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/take_along_dim.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pytorch/aten.h"
#include "trace/composites.h"

namespace braze::trace {
namespace {

using at::Tensor;
using SymInts = std::vector<c10::SymInt>;

bool is_symbolic(const Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

bool is_number(const c10::SymInt& size, int64_t number) {
  return !size.is_heap_allocated() && size.as_int_unchecked() == number;
}

// The last sizes of a tensor, where these are numbers that it has.
std::optional<std::vector<int64_t>> last_sizes(const Tensor& tensor, c10::SymIntArrayRef wanted) {
  const c10::SymIntArrayRef sizes = tensor.sym_sizes();
  if (wanted.empty() || wanted.size() > sizes.size()) return std::nullopt;
  std::vector<int64_t> result;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].is_heap_allocated()) return std::nullopt;
    result.push_back(wanted[i].as_int_unchecked());
    if (!is_number(sizes[sizes.size() - wanted.size() + i], result.back())) return std::nullopt;
  }
  return result;
}

// PyTorch's kernel writes sizes into a message that nobody reads.
Tensor rms_norm(const Tensor& input, c10::SymIntArrayRef normalized,
                const std::optional<Tensor>& weight, std::optional<double> eps) {
  c10::impl::ExcludeDispatchKeyGuard below(kCompositeKey);
  const bool has_weight = weight && weight->defined();
  const auto sizes =
      is_symbolic(input) ? last_sizes(input, normalized) : std::optional<std::vector<int64_t>>();
  const bool is_usual =
      sizes && at::isFloatingType(input.scalar_type()) &&
      (!has_weight || (weight->scalar_type() == input.scalar_type() && !is_symbolic(*weight) &&
                       weight->sizes() == at::IntArrayRef(*sizes))) &&
      input.suggest_memory_format() == at::MemoryFormat::Contiguous;
  if (!is_usual) return at::rms_norm_symint(input, normalized, weight, eps);
  return std::get<0>(at::_fused_rms_norm(input, *sizes, weight, eps));
}

Tensor take_along_dim(const Tensor& self, const Tensor& indices, std::optional<int64_t> dim) {
  c10::impl::ExcludeDispatchKeyGuard below(kCompositeKey);
  const int64_t rank = self.dim();
  const bool is_usual = (is_symbolic(self) || is_symbolic(indices)) && dim && -rank <= *dim &&
                        *dim < rank && indices.dim() == rank &&
                        indices.scalar_type() == at::kLong && indices.device() == self.device();
  if (!is_usual) return at::take_along_dim(self, indices, dim);
  const int64_t along = *dim < 0 ? *dim + rank : *dim;
  // Both broadcast in all dimensions but that one.
  const auto broadcast = [&](const Tensor& tensor, const Tensor& other) {
    const c10::SymIntArrayRef sizes = tensor.sym_sizes();
    SymInts others = other.sym_sizes().vec();
    others[along] = sizes[along];
    return tensor.expand_symint(pytorch::broadcast_sizes(others, sizes));
  };
  return at::gather(broadcast(self, indices), along, broadcast(indices, self));
}

// Without gradients PyTorch's kernel looks into memory, too.
Tensor max_pool1d(const Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride,
                  at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  c10::impl::ExcludeDispatchKeyGuard below(kCompositeKey);
  const bool keeps_places = self.requires_grad() && at::GradMode::is_enabled();
  const auto is_one = [](at::IntArrayRef numbers, int64_t least) {
    return numbers.size() == 1 && numbers[0] >= least;
  };
  const bool is_usual = (is_symbolic(self) || !keeps_places) && self.device().is_cpu() &&
                        at::isFloatingType(self.scalar_type()) &&
                        (self.dim() == 2 || self.dim() == 3) && is_one(kernel, 1) &&
                        (stride.empty() || is_one(stride, 1)) && is_one(padding, 0) &&
                        is_one(dilation, 1) && padding[0] <= kernel[0] / 2 && self.sym_numel() != 0;
  if (!is_usual) return at::max_pool1d(self, kernel, stride, padding, dilation, ceil_mode);
  const int64_t step = stride.empty() ? kernel[0] : stride[0];
  const Tensor pooled = std::get<0>(at::max_pool2d_with_indices(
      self.unsqueeze(-2), {1, kernel[0]}, {1, step}, {0, padding[0]}, {1, dilation[0]}, ceil_mode));
  return keeps_places ? pooled.squeeze(-2) : pooled.squeeze(-2).contiguous();
}

// Of a size of 1 the layout may be one or the other; then PyTorch's kernel has to see it.
bool is_wide(const Tensor& image) {
  return std::ranges::all_of(image.sym_sizes().slice(2),
                             [](const c10::SymInt& size) { return size > 1; });
}

// input, output_size, (align_corners,) scale_factors: to the overload that takes an output size.
void upsample(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard below(kCompositeKey);
  const size_t count = handle.schema().arguments().size(), begin = stack->size() - count;
  const c10::IValue input = (*stack)[begin], sizes = (*stack)[begin + 1];
  const auto spatial = static_cast<size_t>(input.toTensor().dim() - 2);
  const bool is_usual = is_symbolic(input.toTensor()) && stack->back().isNone() &&
                        is_wide(input.toTensor()) && (sizes.isIntList() || sizes.isSymIntList()) &&
                        sizes.toListRef().size() == spatial;
  const std::optional<c10::OperatorHandle> sized =
      is_usual ? c10::Dispatcher::singleton().findSchema({handle.schema().name(), ""})
               : std::nullopt;
  if (!sized || sized->schema().arguments().size() != count - 1 + spatial)
    return handle.callBoxed(stack);
  stack->pop_back();
  stack->insert(stack->end(), spatial, c10::IValue());
  sized->callBoxed(stack);
}

}  // namespace

void register_symbolic_composites(torch::Library& operators) {
  operators.impl("rms_norm", rms_norm);
  operators.impl("take_along_dim", take_along_dim);
  operators.impl("max_pool1d", max_pool1d);
  for (const char* name :
       {"upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec",
        "_upsample_nearest_exact1d.vec", "_upsample_nearest_exact2d.vec",
        "_upsample_nearest_exact3d.vec", "upsample_linear1d.vec", "upsample_bilinear2d.vec",
        "upsample_bicubic2d.vec", "upsample_trilinear3d.vec"})
    operators.impl(name, torch::CppFunction::makeFromBoxedFunction<&upsample>());
}

}  // namespace braze::trace
