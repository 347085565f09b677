// Pooling, resampling and padding with the edge. The formats of their results are those of their
// arguments.
#include <algorithm>

#include "graph/infer/call.h"

namespace braze::graph {
namespace {

using sym::Int;

// One number for all spatial dimensions, or one for each; empty: as `otherwise`.
sym::Dims spatial(const InferCall& call, int i, const sym::Dims& otherwise = {}, size_t count = 2) {
  const std::span<const Int> dims = call.dims(i);
  if (dims.empty()) return otherwise;
  if (dims.size() == 1) return sym::Dims(count, dims[0]);
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
                                      SizeQuestions& ask, size_t count = 2) {
  const size_t rank = input.sizes.size();
  if (rank != count + 1 && rank != count + 2) return std::nullopt;
  for (const sym::Dims* dims : {&window.kernel, &window.stride, &window.padding, &window.dilation})
    if (dims->size() != count) return std::nullopt;
  sym::Dims sizes = input.sizes;
  const size_t first = rank - count;
  for (size_t i = 0; i < count; ++i) {
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
  return input.rank() > 3 ? plain_format(input, ask) : MemoryFormat::kContiguous;
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

// Sizes of averages, by the arguments from `first` on: kernel_size, stride, padding, ceil_mode,
// count_include_pad, divisor_override.
std::optional<sym::Dims> averaged_sizes(const InferCall& call, const TensorType& input, int first) {
  const sym::Dims kernel = spatial(call, first);
  const Window window{kernel,
                      spatial(call, first + 1, kernel),
                      spatial(call, first + 2, {0, 0}),
                      {1, 1},
                      bool_arg_or(call.list(), first + 3, false)};
  if (!call.absent(first + 5) && call.ask.equal(sym_arg(call.list(), first + 5), 0))
    return std::nullopt;
  return pooled_sizes(input, window, call.ask);
}

// self, kernel_size, ...
bool avg_pool2d(const InferCall& call) {
  const TensorType& input = call.tensor(0);
  const auto sizes = averaged_sizes(call, input, 1);
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
  const auto format = format_of_result(input, call.ask);
  if (!format) return false;
  sym::Dims sizes{input.sizes[0], input.sizes[1]};
  sizes.insert(sizes.end(), output.begin(), output.end());
  for (size_t i = 0; i < sizes.size(); ++i)
    if (call.ask.less(sizes[i], 1) || call.ask.less(input.sizes[i], 1)) return false;
  return call.give_in_format(std::move(sizes), *format, input.dtype, input.device);
}

bool has_nothing(const TensorType& type, SizeQuestions& ask) {
  return std::ranges::any_of(type.sizes, [&](const Int& size) { return ask.less(size, 1); });
}

// Those of `self`, padded from the last dimension on; nothing for what is an error or empty.
std::optional<sym::Dims> padded_sizes(const TensorType& self, std::span<const Int> padding,
                                      bool reflects, SizeQuestions& ask) {
  const size_t padded = padding.size() / 2, rank = self.sizes.size();
  if (padding.size() % 2 != 0 || padded == 0 || (rank != padded + 1 && rank != padded + 2) ||
      has_nothing(self, ask))
    return std::nullopt;
  sym::Dims sizes = self.sizes;
  for (size_t i = 0; i < padded; ++i) {
    Int& size = sizes[rank - 1 - i];
    for (const Int& beyond : {padding[2 * i], padding[2 * i + 1]})
      if (reflects && !ask.less(beyond, size)) return std::nullopt;  // an error
    size = size + padding[2 * i] + padding[2 * i + 1];
    if (ask.less(size, 1)) return std::nullopt;
  }
  return sizes;
}

// Channels that are innermost stay so on CPUs alone, which PyTorch's own metadata does not say.
MemoryFormat format_of_moved(const TensorType& self, SizeQuestions& ask) {
  return self.device.type == Device::Type::kCPU ? suggested_format(self, ask)
                                                : MemoryFormat::kContiguous;
}

// self, padding
template <bool reflects>
bool pad_with_edge(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  auto sizes = padded_sizes(self, call.dims(1), reflects, call.ask);
  return sizes && call.give_in_format(std::move(*sizes), format_of_moved(self, call.ask),
                                      self.dtype, self.device);
}

// grad_output, self, padding
template <bool reflects>
bool pad_with_edge_backward(const InferCall& call) {
  const TensorType &grad = call.tensor(0), &self = call.tensor(1);
  const auto sizes = padded_sizes(self, call.dims(2), reflects, call.ask);
  return sizes && grad.dtype == self.dtype && call.ask.all_fit(grad.sizes, *sizes) &&
         call.give_in_format(self.sizes, format_of_moved(self, call.ask), self.dtype, self.device);
}

// self, kernel_size, stride, padding, dilation, ceil_mode
bool max_pool3d(const InferCall& call) {
  const TensorType& input = call.tensor(0);
  const sym::Dims kernel = spatial(call, 1, {}, 3);
  const Window window{kernel, spatial(call, 2, kernel, 3), spatial(call, 3, {0, 0, 0}, 3),
                      spatial(call, 4, {1, 1, 1}, 3), bool_arg_or(call.list(), 5, false)};
  const auto sizes = pooled_sizes(input, window, call.ask, 3);
  const auto format = plain_format(input, call.ask);
  return sizes && format && (input.rank() == 5 || *format == MemoryFormat::kContiguous) &&
         call.give_in_format(*sizes, *format, input.dtype, input.device) &&
         call.give_in_format(*sizes, *format, DType::kInt64, input.device);
}

// grad_output, self, ..., indices
bool max_pool3d_backward(const InferCall& call) {
  const TensorType &grad = call.tensor(0), &self = call.tensor(1), &indices = call.tensor(7);
  const auto format = plain_format(self, call.ask);
  const bool has_batch = self.rank() == 5;
  return format &&
         (has_batch || (*format == MemoryFormat::kContiguous &&
                        plain_format(grad, call.ask) == MemoryFormat::kContiguous)) &&
         grad.dtype == self.dtype && indices.dtype == DType::kInt64 &&
         call.ask.all_fit(grad.sizes, indices.sizes) && !has_nothing(grad, call.ask) &&
         call.give_in_format(self.sizes, *format, self.dtype, self.device);
}

bool give_gradient_of_image(const InferCall& call, const TensorType& image) {
  return call.give_in_format(image.sizes, suggested_format(image, call.ask), image.dtype,
                             image.device);
}

// grad_output, self, kernel_size, ...
bool avg_pool2d_backward(const InferCall& call) {
  const TensorType &grad = call.tensor(0), &self = call.tensor(1);
  const auto sizes = averaged_sizes(call, self, 2);
  return sizes && grad.dtype == self.dtype && call.ask.all_fit(grad.sizes, *sizes) &&
         give_gradient_of_image(call, self);
}

// grad_output, self, ..., indices
bool max_pool2d_backward(const InferCall& call) {
  const TensorType &grad = call.tensor(0), &self = call.tensor(1), &indices = call.tensor(7);
  return (self.rank() == 3 || self.rank() == 4) && grad.rank() == self.rank() &&
         grad.dtype == self.dtype && indices.dtype == DType::kInt64 &&
         call.ask.all_fit(grad.sizes, indices.sizes) && !has_nothing(grad, call.ask) &&
         give_gradient_of_image(call, self);
}

// grad_output, output_size, input_size, ...
template <bool keeps_format>
bool upsample_backward(const InferCall& call) {
  const TensorType& grad = call.tensor(0);
  const std::span<const Int> output = call.dims(1), input = call.dims(2);
  if (input.size() < 3 || output.size() + 2 != input.size() || has_nothing(grad, call.ask))
    return false;
  sym::Dims sizes{input[0], input[1]};
  sizes.insert(sizes.end(), output.begin(), output.end());
  if (!call.ask.all_fit(grad.sizes, sizes)) return false;
  for (const Int& size : input)
    if (call.ask.less(size, 1)) return false;
  return call.give_in_format(
      {input.begin(), input.end()},
      keeps_format ? suggested_format(grad, call.ask) : MemoryFormat::kContiguous, grad.dtype,
      grad.device);
}

// Whether the dimensions in front of the last `count` are the same, one or two of them, and there
// is nothing empty.
bool are_of_same_images(const InferCall& call, const TensorType& a, const TensorType& b,
                        size_t count) {
  if (a.dtype != b.dtype || a.rank() != b.rank() || has_nothing(a, call.ask) ||
      has_nothing(b, call.ask))
    return false;
  const size_t rank = a.sizes.size();
  return (rank == count + 1 || rank == count + 2) &&
         call.ask.all_fit(std::span(a.sizes).first(rank - count),
                          std::span(b.sizes).first(rank - count));
}

// grad_output, self
bool adaptive_avg_pool2d_backward(const InferCall& call) {
  const TensorType& self = call.tensor(1);
  return are_of_same_images(call, call.tensor(0), self, 2) && give_gradient_of_image(call, self);
}

// self, output_size
bool adaptive_avg_pool3d(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const std::span<const Int> output = call.dims(1);
  if (output.size() != 3 || (self.rank() != 4 && self.rank() != 5) || has_nothing(self, call.ask))
    return false;
  sym::Dims sizes = self.sizes;
  for (size_t i = 0; i < 3; ++i) {
    if (call.ask.less(output[i], 1)) return false;
    sizes[sizes.size() - 3 + i] = output[i];
  }
  return call.give_fresh(std::move(sizes), self.dtype, self.device);
}

bool adaptive_avg_pool3d_backward(const InferCall& call) {
  const TensorType& self = call.tensor(1);
  return are_of_same_images(call, call.tensor(0), self, 3) &&
         call.give_fresh(self.sizes, self.dtype, self.device);
}

// Of a window over an image; nothing for what is an error.
std::optional<Int> places_of(const Int& size, const Window& window, size_t i, SizeQuestions& ask) {
  if (ask.less(window.stride[i], 1) || ask.less(window.dilation[i], 1) ||
      ask.less(window.kernel[i], 1) || ask.less(window.padding[i], 0))
    return std::nullopt;
  const Int room = size + window.padding[i] * 2 - window.dilation[i] * (window.kernel[i] - 1) - 1;
  if (ask.less(room, 0)) return std::nullopt;
  return sym::floordiv(room, window.stride[i]) + 1;
}

// Arguments from `first` on: kernel_size, dilation, padding, stride.
std::optional<Window> window_of(const InferCall& call, int first) {
  const Window window{spatial(call, first), spatial(call, first + 3), spatial(call, first + 2),
                      spatial(call, first + 1)};
  for (const sym::Dims* dims : {&window.kernel, &window.stride, &window.padding, &window.dilation})
    if (dims->size() != 2) return std::nullopt;
  return window;
}

// self, kernel_size, dilation, padding, stride
bool columns_of_image(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const auto window = window_of(call, 1);
  const size_t rank = self.sizes.size();
  if (!window || (rank != 3 && rank != 4) || has_nothing(self, call.ask)) return false;
  const auto rows = places_of(self.sizes[rank - 2], *window, 0, call.ask);
  const auto columns = places_of(self.sizes[rank - 1], *window, 1, call.ask);
  if (!rows || !columns) return false;
  sym::Dims sizes(self.sizes.begin(), self.sizes.end() - 3);
  sizes.push_back(self.sizes[rank - 3] * window->kernel[0] * window->kernel[1]);
  sizes.push_back(*rows * *columns);
  return call.give_fresh(std::move(sizes), self.dtype, self.device);
}

// self, output_size, kernel_size, dilation, padding, stride
bool image_of_columns(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const auto window = window_of(call, 2);
  const sym::Dims image = spatial(call, 1);
  const size_t rank = self.sizes.size();
  if (!window || image.size() != 2 || (rank != 2 && rank != 3) || has_nothing(self, call.ask))
    return false;
  const auto rows = places_of(image[0], *window, 0, call.ask);
  const auto columns = places_of(image[1], *window, 1, call.ask);
  const Int area = window->kernel[0] * window->kernel[1];
  if (!rows || !columns || !call.ask.fit(*rows * *columns, self.sizes[rank - 1]) ||
      !call.ask.fit(sym::mod(self.sizes[rank - 2], area), 0))
    return false;
  sym::Dims sizes(self.sizes.begin(), self.sizes.end() - 2);
  sizes.push_back(sym::floordiv(self.sizes[rank - 2], area));
  sizes.insert(sizes.end(), image.begin(), image.end());
  return call.give_fresh(std::move(sizes), self.dtype, self.device);
}

// Whether these are images and the places in them to look at.
bool are_image_and_grid(const InferCall& call, const TensorType& input, const TensorType& grid) {
  return input.dtype == grid.dtype && input.rank() == grid.rank() && input.rank() >= 4 &&
         call.ask.fit(input.sizes[0], grid.sizes[0]) &&
         call.ask.fit(grid.sizes.back(), Int(grid.rank() - 2)) && !has_nothing(input, call.ask) &&
         !has_nothing(grid, call.ask);
}

// input, grid, ...
bool grid_sampler(const InferCall& call) {
  const TensorType &input = call.tensor(0), &grid = call.tensor(1);
  if (!are_image_and_grid(call, input, grid)) return false;
  sym::Dims sizes{input.sizes[0], input.sizes[1]};
  sizes.insert(sizes.end(), grid.sizes.begin() + 1, grid.sizes.end() - 1);
  return call.give_fresh(std::move(sizes), input.dtype, input.device);
}

// grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask. The
// grid's gradient comes in any case.
bool grid_sampler_backward(const InferCall& call) {
  const TensorType &input = call.tensor(1), &grid = call.tensor(2);
  if (!are_image_and_grid(call, input, grid) || call.tensor(0).dtype != input.dtype) return false;
  if (call.bools(6).at(0))
    call.give_fresh(input.sizes, input.dtype, input.device);
  else
    call.give_undefined();
  return call.give_fresh(grid.sizes, grid.dtype, grid.device);
}

// self, factor: channels become space.
bool pixel_shuffle(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const Int factor = sym_arg(call.list(), 1);
  const size_t rank = self.sizes.size();
  if ((rank != 3 && rank != 4) || call.ask.less(factor, 1) || has_nothing(self, call.ask) ||
      !call.ask.fit(sym::mod(self.sizes[rank - 3], factor * factor), 0))
    return false;
  sym::Dims sizes = self.sizes;
  sizes[rank - 3] = sym::floordiv(sizes[rank - 3], factor * factor);
  for (const size_t i : {rank - 2, rank - 1}) sizes[i] = sizes[i] * factor;
  return call.give_in_format(std::move(sizes), format_of_moved(self, call.ask), self.dtype,
                             self.device);
}

// self, factor: space becomes channels.
bool pixel_unshuffle(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const Int factor = sym_arg(call.list(), 1);
  const size_t rank = self.sizes.size();
  if ((rank != 3 && rank != 4) || call.ask.less(factor, 1) || has_nothing(self, call.ask))
    return false;
  sym::Dims sizes = self.sizes;
  for (const size_t i : {rank - 2, rank - 1}) {
    if (!call.ask.fit(sym::mod(sizes[i], factor), 0)) return false;
    sizes[i] = sym::floordiv(sizes[i], factor);
  }
  sizes[rank - 3] = sizes[rank - 3] * factor * factor;
  return call.give_in_format(std::move(sizes), format_of_moved(self, call.ask), self.dtype,
                             self.device);
}

// self, groups
bool channel_shuffle(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const Int groups = sym_arg(call.list(), 1);
  return self.rank() >= 3 && self.rank() <= 5 && !call.ask.less(groups, 1) &&
         !has_nothing(self, call.ask) && call.ask.fit(sym::mod(self.sizes[1], groups), 0) &&
         call.give_in_format(self.sizes, format_of_moved(self, call.ask), self.dtype, self.device);
}

constexpr InferEntry kPoolingRules[] = {
    {"aten.reflection_pad1d", pad_with_edge<true>, InferUse::kAlways},
    {"aten.reflection_pad1d_backward", pad_with_edge_backward<true>, InferUse::kAlways},
    {"aten.replication_pad1d_backward", pad_with_edge_backward<false>, InferUse::kAlways},
    {"aten.reflection_pad2d", pad_with_edge<true>, InferUse::kAlways},
    {"aten.reflection_pad3d", pad_with_edge<true>, InferUse::kAlways},
    {"aten.replication_pad1d", pad_with_edge<false>, InferUse::kAlways},
    {"aten.replication_pad2d", pad_with_edge<false>, InferUse::kAlways},
    {"aten.replication_pad3d", pad_with_edge<false>, InferUse::kAlways},
    {"aten.reflection_pad2d_backward", pad_with_edge_backward<true>, InferUse::kAlways},
    {"aten.reflection_pad3d_backward", pad_with_edge_backward<true>, InferUse::kAlways},
    {"aten.replication_pad2d_backward", pad_with_edge_backward<false>, InferUse::kAlways},
    {"aten.replication_pad3d_backward", pad_with_edge_backward<false>, InferUse::kAlways},
    {"aten.max_pool2d_with_indices", max_pool2d},
    {"aten.max_pool3d_with_indices", max_pool3d, InferUse::kAlways},
    {"aten.max_pool3d_with_indices_backward", max_pool3d_backward, InferUse::kAlways},
    {"aten._adaptive_avg_pool2d_backward", adaptive_avg_pool2d_backward, InferUse::kAlways},
    {"aten._adaptive_avg_pool3d", adaptive_avg_pool3d, InferUse::kAlways},
    {"aten._adaptive_avg_pool3d_backward", adaptive_avg_pool3d_backward, InferUse::kAlways},
    {"aten.im2col", columns_of_image, InferUse::kAlways},
    {"aten.col2im", image_of_columns, InferUse::kAlways},
    {"aten.grid_sampler_2d", grid_sampler, InferUse::kAlways},
    {"aten.grid_sampler_3d", grid_sampler, InferUse::kAlways},
    {"aten.grid_sampler_2d_backward", grid_sampler_backward, InferUse::kAlways},
    {"aten.grid_sampler_3d_backward", grid_sampler_backward, InferUse::kAlways},
    {"aten.pixel_shuffle", pixel_shuffle, InferUse::kAlways},
    {"aten.pixel_unshuffle", pixel_unshuffle, InferUse::kAlways},
    {"aten.channel_shuffle", channel_shuffle, InferUse::kAlways},
    {"aten.avg_pool2d", avg_pool2d},
    {"aten.avg_pool2d_backward", avg_pool2d_backward, InferUse::kAlways},
    {"aten.max_pool2d_with_indices_backward", max_pool2d_backward, InferUse::kAlways},
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
    {"aten.upsample_nearest1d_backward", upsample_backward<false>, InferUse::kAlways},
    {"aten.upsample_nearest2d_backward", upsample_backward<true>, InferUse::kAlways},
    {"aten.upsample_nearest3d_backward", upsample_backward<false>, InferUse::kAlways},
    {"aten._upsample_nearest_exact1d_backward", upsample_backward<false>, InferUse::kAlways},
    {"aten._upsample_nearest_exact2d_backward", upsample_backward<true>, InferUse::kAlways},
    {"aten._upsample_nearest_exact3d_backward", upsample_backward<false>, InferUse::kAlways},
    {"aten.upsample_linear1d_backward", upsample_backward<false>, InferUse::kAlways},
    {"aten.upsample_bilinear2d_backward", upsample_backward<true>, InferUse::kAlways},
    {"aten.upsample_bicubic2d_backward", upsample_backward<false>, InferUse::kAlways},
    {"aten.upsample_trilinear3d_backward", upsample_backward<true>, InferUse::kAlways},
};

}  // namespace

std::span<const InferEntry> infer_pooling() { return kPoolingRules; }

}  // namespace braze::graph
