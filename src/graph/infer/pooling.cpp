// Pooling, resampling and padding with the edge. The formats of their results are those of their
// arguments.
#include "graph/infer/call.h"

namespace braze::graph {
namespace {

using sym::Int;

// One number for both spatial dimensions, or one for each; empty: as `otherwise`.
sym::Dims spatial(const InferCall& call, int i, const sym::Dims& otherwise = {}) {
  const std::span<const Int> dims = call.dims(i);
  if (dims.empty()) return otherwise;
  if (dims.size() == 1) return {dims[0], dims[0]};
  return {dims.begin(), dims.end()};
}

struct Window {
  sym::Dims kernel, stride, padding, dilation;
  bool ceil = false;
};

// at::native::pooling_output_shape.
Int pooled(const Int& size, const Window& window, size_t i, SizeQuestions& ask) {
  const Int reach = window.dilation[i] * (window.kernel[i] - 1);
  const Int rounding = window.ceil ? window.stride[i] - 1 : Int(0);
  const Int room = size + window.padding[i] * 2 - reach - 1 + rounding;
  if (ask.less(room, 0)) return 0;  // division rounds towards 0
  Int result = sym::floordiv(room, window.stride[i]) + 1;
  // The last window begins inside of the image.
  if (window.ceil && !ask.less((result - 1) * window.stride[i], size + window.padding[i]))
    result = result - 1;
  return result;
}

// Sizes of the result, of an image or a batch of images; nothing for what is an error.
std::optional<sym::Dims> pooled_sizes(const TensorType& input, const Window& window,
                                      SizeQuestions& ask) {
  if (input.rank() != 3 && input.rank() != 4) return std::nullopt;
  for (const sym::Dims* dims : {&window.kernel, &window.stride, &window.padding, &window.dilation})
    if (dims->size() != 2) return std::nullopt;
  sym::Dims sizes = input.sizes;
  const size_t first = sizes.size() - 2;
  for (size_t i = 0; i < 2; ++i) {
    if (ask.less(window.stride[i], 1) || ask.less(window.padding[i], 0)) return std::nullopt;
    const Int reach = window.dilation[i] * (window.kernel[i] - 1) + 1;
    if (ask.less(reach, window.padding[i] * 2)) return std::nullopt;
    sizes[first + i] = pooled(sizes[first + i], window, i, ask);
  }
  for (const Int& size : sizes)
    if (ask.less(size, 1)) return std::nullopt;
  return sizes;
}

std::optional<MemoryFormat> format_of_result(const TensorType& input, SizeQuestions& ask) {
  return input.rank() == 4 ? plain_format(input, ask) : MemoryFormat::kContiguous;
}

// self, kernel_size, stride, padding, dilation, ceil_mode
bool max_pool2d(const InferCall& call) {
  const TensorType& input = call.tensor(0);
  const sym::Dims kernel = spatial(call, 1);
  const Window window{kernel, spatial(call, 2, kernel), spatial(call, 3, {0, 0}),
                      spatial(call, 4, {1, 1}), bool_arg_or(call.list(), 5, false)};
  const auto sizes = pooled_sizes(input, window, call.ask);
  const auto format = format_of_result(input, call.ask);
  return sizes && format && call.give_in_format(*sizes, *format, input.dtype, input.device) &&
         call.give_in_format(*sizes, *format, DType::kInt64, input.device);
}

// self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
bool avg_pool2d(const InferCall& call) {
  const TensorType& input = call.tensor(0);
  const sym::Dims kernel = spatial(call, 1);
  const Window window{kernel,
                      spatial(call, 2, kernel),
                      spatial(call, 3, {0, 0}),
                      {1, 1},
                      bool_arg_or(call.list(), 4, false)};
  if (!call.absent(6) && call.ask.equal(sym_arg(call.list(), 6), 0)) return false;
  const auto sizes = pooled_sizes(input, window, call.ask);
  const auto format = format_of_result(input, call.ask);
  return sizes && format && call.give_in_format(*sizes, *format, input.dtype, input.device);
}

// input, output_size
bool adaptive_avg_pool2d(const InferCall& call) {
  const TensorType& input = call.tensor(0);
  const std::span<const Int> output = call.dims(1);
  if (output.size() != 2 || (input.rank() != 3 && input.rank() != 4) ||
      call.ask.equal(input.numel(), 0) || call.ask.less(output[0], 1) ||
      call.ask.less(output[1], 1))
    return false;
  const auto format = plain_format(input, call.ask);
  if (!format) return false;
  sym::Dims sizes = input.sizes;
  sizes[sizes.size() - 2] = output[0];
  sizes[sizes.size() - 1] = output[1];
  return call.give_in_format(std::move(sizes), *format, input.dtype, input.device);
}

// self, output_size, ...: batch and channels of the input.
bool upsample(const InferCall& call) {
  const TensorType& input = call.tensor(0);
  const std::span<const Int> output = call.dims(1);
  if (input.rank() < 3 || output.size() + 2 != input.sizes.size()) return false;
  const auto format = plain_format(input, call.ask);
  if (!format) return false;
  sym::Dims sizes{input.sizes[0], input.sizes[1]};
  sizes.insert(sizes.end(), output.begin(), output.end());
  for (size_t i = 0; i < sizes.size(); ++i)
    if (call.ask.less(sizes[i], 1) || call.ask.less(input.sizes[i], 1)) return false;
  return call.give_in_format(std::move(sizes), *format, input.dtype, input.device);
}

// self, padding from the last dimension on. Channels that are innermost stay so, which PyTorch's
// own metadata does not say.
bool pad_with_edge(const InferCall& call, bool reflects) {
  const TensorType& self = call.tensor(0);
  const std::span<const Int> padding = call.dims(1);
  const size_t padded = padding.size() / 2, rank = self.sizes.size();
  if (rank != 4 && rank != 5) return false;
  const MemoryFormat format = suggested_format(self, call.ask);
  if (format == MemoryFormat::kContiguous || padding.size() % 2 != 0 || padded >= rank)
    return false;
  sym::Dims sizes = self.sizes;
  for (const Int& size : sizes)
    if (call.ask.less(size, 1)) return false;
  for (size_t i = 0; i < padded; ++i) {
    Int& size = sizes[rank - 1 - i];
    for (const Int& beyond : {padding[2 * i], padding[2 * i + 1]})
      if (reflects && !call.ask.less(beyond, size)) return false;  // an error
    size = size + padding[2 * i] + padding[2 * i + 1];
    if (call.ask.less(size, 1)) return false;
  }
  return call.give_in_format(std::move(sizes), format, self.dtype, self.device);
}

bool reflection_pad(const InferCall& call) { return pad_with_edge(call, true); }
bool replication_pad(const InferCall& call) { return pad_with_edge(call, false); }

constexpr InferEntry kRules[] = {
    {"aten.reflection_pad2d", reflection_pad, InferUse::kAlways},
    {"aten.reflection_pad3d", reflection_pad, InferUse::kAlways},
    {"aten.replication_pad2d", replication_pad, InferUse::kAlways},
    {"aten.replication_pad3d", replication_pad, InferUse::kAlways},
    {"aten.max_pool2d_with_indices", max_pool2d},
    {"aten.avg_pool2d", avg_pool2d},
    {"aten._adaptive_avg_pool2d", adaptive_avg_pool2d, InferUse::kAlways},
    {"aten.upsample_nearest1d", upsample},
    {"aten.upsample_nearest2d", upsample},
    {"aten.upsample_nearest3d", upsample},
    {"aten._upsample_nearest_exact1d", upsample},
    {"aten._upsample_nearest_exact2d", upsample},
    {"aten._upsample_nearest_exact3d", upsample},
    {"aten.upsample_linear1d", upsample},
    {"aten.upsample_bilinear2d", upsample},
    {"aten.upsample_bicubic2d", upsample},
    {"aten.upsample_trilinear3d", upsample},
};

}  // namespace

std::span<const InferEntry> infer_pooling() { return kRules; }

}  // namespace braze::graph
