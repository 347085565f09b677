// Pooling and resampling with symbolic sizes; PyTorch's C++ kernels serve concrete ones.
#include "trace/fake_tensor.h"
#include "trace/shapes/families.h"

namespace braze::trace {
namespace {

// One number for all spatial dimensions, or one for each; empty: as `otherwise`.
Dims spatial(Dims dims, const Dims& otherwise) {
  if (dims.empty()) return otherwise;
  if (dims.size() == 1) dims.resize(2, dims[0]);
  return dims;
}

struct Window {
  Dims kernel, stride, padding, dilation;
  bool ceil = false;
};

// at::native::pooling_output_shape.
c10::SymInt pooled(const c10::SymInt& size, const Window& window, size_t i) {
  const c10::SymInt reach = window.dilation[i] * (window.kernel[i] - 1);
  const c10::SymInt rounding = window.ceil ? window.stride[i] - 1 : c10::SymInt(0);
  const c10::SymInt room = size + window.padding[i] * 2 - reach - 1 + rounding;
  if (less(room, 0)) return 0;  // division rounds towards 0
  c10::SymInt result = room / window.stride[i] + 1;
  // The last window begins inside of the image.
  if (window.ceil && !less((result - 1) * window.stride[i], size + window.padding[i]))
    result = result - 1;
  return result;
}

// Sizes of the result, of an image or a batch of images; nothing for what is an error.
std::optional<Dims> pooled_sizes(const at::Tensor& input, const Window& window) {
  if (input.dim() != 3 && input.dim() != 4) return std::nullopt;
  for (const Dims* dims : {&window.kernel, &window.stride, &window.padding, &window.dilation})
    if (dims->size() != 2) return std::nullopt;
  Dims sizes = sizes_of(input);
  const size_t first = sizes.size() - 2;
  for (size_t i = 0; i < 2; ++i) {
    if (less(window.stride[i], 1) || less(window.padding[i], 0)) return std::nullopt;
    const c10::SymInt reach = window.dilation[i] * (window.kernel[i] - 1) + 1;
    if (less(reach, window.padding[i] * 2)) return std::nullopt;
    sizes[first + i] = pooled(sizes[first + i], window, i);
  }
  for (const c10::SymInt& size : sizes)
    if (less(size, 1)) return std::nullopt;
  return sizes;
}

std::optional<at::MemoryFormat> format_of_result(const at::Tensor& input) {
  return input.dim() == 4 ? plain_format(input) : at::MemoryFormat::Contiguous;
}

// self, kernel_size, stride, padding, dilation, ceil_mode
bool max_pool2d(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  const Dims kernel = spatial(dims_in(call[1]), {});
  const Window window{kernel, spatial(dims_in(call[2]), kernel), spatial(dims_in(call[3]), {}),
                      spatial(dims_in(call[4]), {}), call[5].toBool()};
  const std::optional<Dims> sizes = pooled_sizes(input, window);
  const auto format = format_of_result(input);
  if (!sizes || !format) return false;
  return call.give(fresh_in_format(*sizes, *format, input.scalar_type()),
                   fresh_in_format(*sizes, *format, at::kLong));
}

// self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
bool avg_pool2d(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  const Dims kernel = spatial(dims_in(call[1]), {});
  const Window window{kernel, spatial(dims_in(call[2]), kernel), spatial(dims_in(call[3]), {}),
                      Dims{1, 1}, call[4].toBool()};
  const bool divides_by_zero = !call[6].isNone() && equal(int_in(call[6]), 0);
  const std::optional<Dims> sizes = pooled_sizes(input, window);
  const auto format = format_of_result(input);
  if (divides_by_zero || !sizes || !format) return false;
  return call.give(fresh_in_format(*sizes, *format, input.scalar_type()));
}

// self, output_size, ...: batch and channels of the input.
bool upsample(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  const Dims output = dims_in(call[1]);
  if (input.dim() < 3 || static_cast<int64_t>(output.size()) != input.dim() - 2) return false;
  const auto format = plain_format(input);
  if (!format) return false;
  Dims sizes{input.sym_size(0), input.sym_size(1)};
  sizes.append(output.begin(), output.end());
  for (int64_t i = 0; i < input.dim(); ++i)
    if (less(sizes[i], 1) || less(input.sym_size(i), 1)) return false;
  return call.give(fresh_in_format(sizes, *format, input.scalar_type()));
}

// self, padding from the last dimension on. Channels that are innermost stay so, which PyTorch's
// own metadata does not say.
bool pad_of_edge(const ShapeCall& call) {
  const at::Tensor self = call.tensor(0);
  const Dims padding = dims_in(call[1]);
  const size_t padded = padding.size() / 2, rank = self.dim();
  if (rank != 4 && rank != 5) return false;
  const at::MemoryFormat format = self.suggest_memory_format();
  if (format == at::MemoryFormat::Contiguous || padding.size() % 2 != 0 || padded >= rank)
    return false;
  Dims sizes = sizes_of(self);
  const bool reflects = call.info.handle.operator_name().name.starts_with("aten::reflection");
  for (const c10::SymInt& size : sizes)
    if (less(size, 1)) return false;
  for (size_t i = 0; i < padded; ++i) {
    c10::SymInt& size = sizes[rank - 1 - i];
    for (const c10::SymInt& beyond : {padding[2 * i], padding[2 * i + 1]})
      if (reflects && !less(beyond, size)) return false;  // an error
    size = size + padding[2 * i] + padding[2 * i + 1];
    if (less(size, 1)) return false;
  }
  return call.give(fresh_in_format(sizes, format, self.scalar_type()));
}

constexpr NamedShape kShapes[] = {
    {"reflection_pad2d", pad_of_edge, false},      {"reflection_pad3d", pad_of_edge, false},
    {"replication_pad2d", pad_of_edge, false},     {"replication_pad3d", pad_of_edge, false},
    {"max_pool2d_with_indices", max_pool2d, true}, {"avg_pool2d", avg_pool2d, true},
    {"upsample_nearest1d", upsample, true},        {"upsample_nearest2d", upsample, true},
    {"upsample_nearest3d", upsample, true},        {"_upsample_nearest_exact1d", upsample, true},
    {"_upsample_nearest_exact2d", upsample, true}, {"_upsample_nearest_exact3d", upsample, true},
    {"upsample_linear1d", upsample, true},         {"upsample_bilinear2d", upsample, true},
    {"upsample_bicubic2d", upsample, true},        {"upsample_trilinear3d", upsample, true},
};

}  // namespace

std::span<const NamedShape> pooling_shapes() { return kShapes; }

}  // namespace braze::trace
