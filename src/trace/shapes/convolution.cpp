// Convolution, whose layout is that of the backend that PyTorch picks.
#include <ATen/native/ConvUtils.h>

#include <algorithm>

#include "trace/fake_tensor.h"
#include "trace/rules/rules.h"
#include "trace/shapes/common.h"

namespace braze::trace {
namespace {

constexpr auto kRowMajor = at::MemoryFormat::Contiguous;

struct Convolution {
  at::Tensor input, weight, bias;
  Dims stride, padding, dilation, output_padding;
  bool transposed;
  c10::SymInt groups;
};

c10::SymInt output_channels(const Convolution& conv) {
  return conv.transposed ? conv.weight.sym_size(1) * conv.groups : conv.weight.sym_size(0);
}

Dims output_sizes(const Convolution& conv) {
  Dims sizes{conv.input.sym_size(0), output_channels(conv)};
  for (int64_t i = 2; i < conv.input.dim(); ++i) {
    const size_t k = i - 2;
    const c10::SymInt input = conv.input.sym_size(i);
    const c10::SymInt reach = conv.dilation[k] * (conv.weight.sym_size(i) - 1);
    if (conv.transposed)
      sizes.push_back((input - 1) * conv.stride[k] - conv.padding[k] * 2 + reach +
                      conv.output_padding[k] + 1);
    else
      sizes.push_back((input + conv.padding[k] * 2 - reach - 1) / conv.stride[k] + 1);
  }
  return sizes;
}

bool is_symbolic(const Convolution& conv) {
  auto any = [](DimsRef dims) {
    return std::any_of(dims.begin(), dims.end(),
                       [](const c10::SymInt& dim) { return dim.is_heap_allocated(); });
  };
  return any(conv.input.sym_sizes()) || any(conv.weight.sym_sizes()) || any(conv.stride) ||
         any(conv.padding) || any(conv.dilation) || any(conv.output_padding) ||
         conv.groups.is_heap_allocated();
}

// The memory format of the output where it does not depend on the backend, which PyTorch picks by
// sizes: row-major operands give a row-major output; channels that are innermost in one of them
// stay so, but with doubles some backends do otherwise.
std::optional<at::MemoryFormat> format_of_any_backend(const Convolution& conv) {
  const auto input = plain_format(conv.input);
  const at::MemoryFormat weight = conv.weight.suggest_memory_format();
  if (input == kRowMajor && weight == kRowMajor) return kRowMajor;
  if (conv.input.dim() == 4 && conv.input.scalar_type() == at::kFloat)
    return at::MemoryFormat::ChannelsLast;
  return std::nullopt;
}

// The memory format in which the backend that PyTorch picks on the CPU makes the output. It picks
// by the device, so that the fakes must show theirs.
at::MemoryFormat output_format(const Convolution& conv) {
  struct OutsideKernel {
    OutsideKernel() { thread_state.in_kernel = false; }
    ~OutsideKernel() { thread_state.in_kernel = true; }
  } outside;
  const std::optional<at::Tensor> bias =
      conv.bias.defined() ? std::optional<at::Tensor>(conv.bias) : std::nullopt;
  const auto backend = at::native::select_conv_backend(
      conv.input, conv.weight, bias, conv.stride, conv.padding, conv.dilation, conv.transposed,
      conv.output_padding, conv.groups, std::nullopt);
  return at::native::_determine_backend_memory_format(conv.input, conv.weight, backend);
}

at::Tensor with_extra_dim(const at::Tensor& tensor) {
  Dims sizes = sizes_of(tensor), strides = strides_of(tensor);
  strides.insert(strides.begin() + 2, sizes[2] * strides[2]);
  sizes.insert(sizes.begin() + 2, 1);
  return make_fake_view(tensor, sizes, strides, tensor.sym_storage_offset());
}

// One-dimensional convolution runs as a two-dimensional one, on a contiguous input.
void add_dim(Convolution& conv) {
  conv.input = with_extra_dim(fresh(conv.input.sym_sizes(), conv.input.scalar_type()));
  conv.weight = with_extra_dim(conv.weight);
  auto extend = [](Dims& dims, int64_t value) {
    const c10::SymInt last = dims.back();
    dims = Dims{value, last};
  };
  extend(conv.stride, 1);
  extend(conv.padding, 0);
  extend(conv.dilation, 1);
  extend(conv.output_padding, 0);
}

// Whether channels-last strides of these sizes differ from row-major ones.
bool has_own_order(const Dims& sizes) {
  bool space = false;
  for (size_t i = 2; i < sizes.size() && !space; ++i) space = !equal(sizes[i], 1);
  return space && !equal(sizes[1], 1);
}

}  // namespace

// input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
bool metadata::convolution(const ShapeCall& call) {
  Convolution conv{call.tensor(0),   call.tensor(1),   call.tensor(2),
                   dims_in(call[3]), dims_in(call[4]), dims_in(call[5]),
                   dims_in(call[7]), call[6].toBool(), int_in(call[8])};
  const auto& input = conv.input;
  if (input.dim() < 3 || input.dim() > 5 || conv.weight.dim() != input.dim() ||
      equal(input.sym_numel(), 0) ||
      !equal(input.sym_size(1),
             conv.transposed ? conv.weight.sym_size(0) : conv.weight.sym_size(1) * conv.groups) ||
      input.scalar_type() != conv.weight.scalar_type())
    return false;
  const size_t spatial = input.dim() - 2;
  for (Dims* dims : {&conv.stride, &conv.padding, &conv.dilation, &conv.output_padding})
    if (dims->size() == 1) dims->resize(spatial, (*dims)[0]);
  const bool one_dimensional = input.dim() == 3;
  if (one_dimensional) add_dim(conv);

  // Where the layout is not plain, the kernel itself is asked.
  if (!plain_format(conv.input)) return false;
  if ((one_dimensional || conv.transposed) &&
      !(plain_format(conv.weight) == kRowMajor && plain_format(conv.input) == kRowMajor))
    return false;

  Dims sizes = output_sizes(conv);
  for (const c10::SymInt& size : sizes)
    if (less(size, 1)) return false;  // an error or an empty result
  const auto format = is_symbolic(conv) ? format_of_any_backend(conv) : output_format(conv);
  if (!format || (*format != kRowMajor && !has_own_order(sizes))) return false;
  const at::Tensor output = fresh_in_format(sizes, *format, conv.input.scalar_type());
  if (!one_dimensional) return call.give(output);
  Dims strides = strides_of(output);
  sizes.erase(sizes.begin() + 2);
  strides.erase(strides.begin() + 2);
  return call.give(make_fake(sizes, strides, conv.input.scalar_type()));
}

}  // namespace braze::trace
