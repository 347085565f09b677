// Convolution, whose layout is that of the backend that PyTorch picks.
#include <ATen/native/ConvUtils.h>

#include <algorithm>
#include <array>
#include <optional>

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

c10::SymInt input_channels(const Convolution& conv) {
  return conv.transposed ? conv.weight.sym_size(0) : conv.weight.sym_size(1) * conv.groups;
}

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

// The memory format in which kernels take the input: its own, or row-major where it lies in none
// and does not look as if its channels were last, as a crop of an image: of that they make a copy.
std::optional<at::MemoryFormat> format_taken(const Convolution& conv) {
  const auto format = plain_format(conv.input);
  if (format || !is_symbolic(conv)) return format;
  return is_sliced_row_major(conv.input) ? std::optional(kRowMajor) : std::nullopt;
}

// The memory format of the output where it does not depend on the backend, which PyTorch picks by
// sizes: row-major operands give a row-major output; channels that are innermost in one of them
// stay so, but with doubles some backends do otherwise.
std::optional<at::MemoryFormat> format_of_any_backend(const Convolution& conv) {
  const auto input = format_taken(conv);
  const at::MemoryFormat weight = conv.weight.suggest_memory_format();
  if (input == kRowMajor && weight == kRowMajor) return kRowMajor;
  if (conv.input.dim() == 4 && conv.input.scalar_type() == at::kFloat)
    return at::MemoryFormat::ChannelsLast;
  return std::nullopt;
}

bool is_on_cpu(const at::Tensor& tensor) {
  const FakeTensorImpl* fake = as_fake(tensor);
  return (fake ? fake->fake_device() : tensor.device()).is_cpu();
}

struct Backend {
  at::native::ConvBackend kind;
  at::MemoryFormat format;  // in which it makes what it makes
  bool on_cpu;
  bool is_onednn() const {
    return kind == at::native::ConvBackend::Mkldnn ||
           kind == at::native::ConvBackend::MkldnnTranspose;
  }
};

// That which PyTorch picks. It picks by the device, so that the fakes must show theirs.
Backend backend_of(const Convolution& conv, at::OptionalSymIntArrayRef bias_sizes = std::nullopt) {
  struct OutsideKernel {
    OutsideKernel() { thread_state.in_kernel = false; }
    ~OutsideKernel() { thread_state.in_kernel = true; }
  } outside;
  const std::optional<at::Tensor> bias =
      conv.bias.defined() ? std::optional<at::Tensor>(conv.bias) : std::nullopt;
  const auto backend = at::native::select_conv_backend(
      conv.input, conv.weight, bias, conv.stride, conv.padding, conv.dilation, conv.transposed,
      conv.output_padding, conv.groups, bias_sizes);
  return {.kind = backend,
          .format = at::native::_determine_backend_memory_format(conv.input, conv.weight, backend),
          .on_cpu = is_on_cpu(conv.input)};
}

at::Tensor with_extra_dim(const at::Tensor& tensor) {
  Dims sizes = sizes_of(tensor), strides = strides_of(tensor);
  strides.insert(strides.begin() + 2, sizes[2] * strides[2]);
  sizes.insert(sizes.begin() + 2, 1);
  return make_fake_view(tensor, sizes, strides, tensor.sym_storage_offset());
}

// One-dimensional convolution runs as a two-dimensional one, on a contiguous input: itself, or a
// copy.
void add_dim(Convolution& conv) {
  const bool is_contiguous = plain_format(conv.input) == kRowMajor;
  conv.input = with_extra_dim(
      is_contiguous ? conv.input : fresh(conv.input.sym_sizes(), conv.input.scalar_type()));
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

// What eager takes but for the sizes of the window, with a number for each dimension and one
// dimension made two.
bool prepare(Convolution& conv) {
  const at::Tensor& input = conv.input;
  if (input.dim() < 3 || input.dim() > 5 || conv.weight.dim() != input.dim() ||
      equal(input.sym_numel(), 0) || !equal(input.sym_size(1), input_channels(conv)) ||
      input.scalar_type() != conv.weight.scalar_type())
    return false;
  const size_t spatial = input.dim() - 2;
  for (Dims* dims : {&conv.stride, &conv.padding, &conv.dilation, &conv.output_padding})
    if (dims->size() == 1) dims->resize(spatial, (*dims)[0]);
  if (spatial == 1) add_dim(conv);
  return true;
}

// Back to one dimension.
at::Tensor without_extra_dim(const at::Tensor& tensor) {
  Dims sizes = sizes_of(tensor), strides = strides_of(tensor);
  sizes.erase(sizes.begin() + 2);
  strides.erase(strides.begin() + 2);
  return make_fake(sizes, strides, tensor.scalar_type());
}

// Which parts of the gradient a backend gives, and how they lie in memory.
struct GradientLayout {
  at::MemoryFormat input, weight;
  bool gives_weight;
};

// Whether oneDNN computes it for all sizes of the batch and of the space: PyTorch picks it from
// some size on, so that the smallest call tells.
bool is_always_onednn(const Convolution& conv, at::OptionalSymIntArrayRef bias_sizes) {
  Convolution smallest = conv;
  Dims sizes = sizes_of(conv.input);
  sizes[0] = 1;
  sizes[1] = input_channels(conv);
  for (size_t i = 2; i < sizes.size(); ++i) {
    const c10::SymInt reach = conv.dilation[i - 2] * (conv.weight.sym_size(i) - 1) + 1;
    const c10::SymInt least = conv.transposed ? 1 : reach - conv.padding[i - 2] * 2;
    if (least.is_heap_allocated()) return false;
    sizes[i] = std::max<int64_t>(least.expect_int(), 1);
  }
  if (!is_on_cpu(conv.input)) return false;
  smallest.input = fresh(sizes, conv.input.scalar_type());
  return !is_symbolic(smallest) && backend_of(smallest, bias_sizes).is_onednn();
}

std::optional<GradientLayout> gradient_layout(const Convolution& conv,
                                              at::OptionalSymIntArrayRef bias_sizes,
                                              const std::array<bool, 3>& asked_for) {
  const Dims input = sizes_of(conv.input), weight = sizes_of(conv.weight);
  if (is_symbolic(conv)) {
    const auto format = format_of_any_backend(conv);
    if (!format || !format_taken(conv)) return std::nullopt;
    const bool is_ambiguous =
        *format != kRowMajor && (!has_own_order(input) || !has_own_order(weight));
    const bool weight_with_bias = asked_for[2] && !asked_for[1];
    if (!is_ambiguous && !weight_with_bias) return GradientLayout{*format, *format, asked_for[1]};
    if (!is_always_onednn(conv, bias_sizes)) return std::nullopt;
    return GradientLayout{*format, *format, asked_for[1] || asked_for[2]};
  }
  const Backend backend = backend_of(conv, bias_sizes);
  GradientLayout layout{backend.format, backend.format, asked_for[1]};
  if (backend.kind == at::native::ConvBackend::Empty ||
      backend.kind == at::native::ConvBackend::MkldnnEmpty)
    return std::nullopt;
  if (backend.is_onednn()) {
    layout.gives_weight |= asked_for[2];
  } else if (backend.format != kRowMajor) {
    // What is in more than one format, these backends take as they find it; those of a GPU make it
    // in theirs.
    const bool is_ambiguous = !has_own_order(weight) || !has_own_order(input);
    if (is_ambiguous && conv.groups != 1 && backend.on_cpu) return std::nullopt;
    // They look at the weight again, once it is channels-last.
    const bool looks_again = backend.kind == at::native::ConvBackend::Slow2d ||
                             backend.kind == at::native::ConvBackend::SlowTranspose2d;
    if (looks_again && !has_own_order(weight) && conv.weight.is_contiguous_or_false(backend.format))
      layout.weight = conv.weight.suggest_memory_format();
  }
  return layout;
}

}  // namespace

// input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
bool metadata::convolution(const ShapeCall& call) {
  Convolution conv{call.tensor(0),   call.tensor(1),   call.tensor(2),
                   dims_in(call[3]), dims_in(call[4]), dims_in(call[5]),
                   dims_in(call[7]), call[6].toBool(), int_in(call[8])};
  const bool one_dimensional = conv.input.dim() == 3;
  if (!prepare(conv)) return false;

  // Where the layout is not plain, the kernel itself is asked.
  if (!format_taken(conv)) return false;
  if ((one_dimensional || conv.transposed) &&
      !(plain_format(conv.weight) == kRowMajor && format_taken(conv) == kRowMajor))
    return false;

  const Dims sizes = output_sizes(conv);
  for (const c10::SymInt& size : sizes)
    if (less(size, 1)) return false;  // an error or an empty result
  const auto format =
      is_symbolic(conv) ? format_of_any_backend(conv) : std::optional(backend_of(conv).format);
  if (!format) return false;
  if (*format != kRowMajor && !has_own_order(sizes) && is_on_cpu(conv.input)) return false;
  const at::Tensor output = fresh_in_format(sizes, *format, conv.input.scalar_type());
  return call.give(one_dimensional ? without_extra_dim(output) : output);
}

// grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
// groups, output_mask. How the gradient of the output lies makes no difference.
bool metadata::convolution_backward(const ShapeCall& call) {
  const at::Tensor grad = call.tensor(0);
  Convolution conv{call.tensor(1),   call.tensor(2),   at::Tensor(),
                   dims_in(call[4]), dims_in(call[5]), dims_in(call[6]),
                   dims_in(call[8]), call[7].toBool(), int_in(call[9])};
  const at::ScalarType dtype = conv.input.scalar_type();
  const bool one_dimensional = conv.input.dim() == 3;
  if (grad.dim() != conv.input.dim() || grad.scalar_type() != dtype || !prepare(conv)) return false;
  Dims sizes = output_sizes(conv);
  for (const c10::SymInt& size : sizes)
    if (less(size, 1)) return false;
  if (one_dimensional) sizes.erase(sizes.begin() + 2);
  for (int64_t i = 0; i < grad.dim(); ++i)
    if (!equal(grad.sym_size(i), sizes[i])) return false;  // an error

  const auto mask = call[10].toBoolList();
  if (mask.size() != 3) return false;
  const std::array<bool, 3> asked_for{mask[0], mask[1], mask[2]};
  const Dims bias = dims_in(call[3]);
  const auto layout = gradient_layout(
      conv, call[3].isNone() ? at::OptionalSymIntArrayRef() : at::OptionalSymIntArrayRef(bias),
      asked_for);
  if (!layout) return false;
  const auto gradient = [&](const at::Tensor& of, at::MemoryFormat format, bool given) {
    if (!given) return at::Tensor();
    const at::Tensor result = fresh_in_format(sizes_of(of), format, dtype);
    return one_dimensional ? without_extra_dim(result) : result;
  };
  const at::Tensor of_bias = asked_for[2] ? fresh(Dims{sizes[1]}, dtype) : at::Tensor();
  return call.give(gradient(conv.input, layout->input, asked_for[0]),
                   gradient(conv.weight, layout->weight, layout->gives_weight), of_bias);
}

}  // namespace braze::trace
