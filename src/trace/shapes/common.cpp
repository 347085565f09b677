// What the functions of this folder share: the rules of graph/infer/ for tensors of PyTorch's.
#include "trace/shapes/common.h"

#include "trace/fake_tensor.h"
#include "trace/metadata.h"
#include "trace/tracer.h"

namespace braze::trace {
namespace {

graph::MemoryFormat graph_format(at::MemoryFormat format) {
  switch (format) {
    case at::MemoryFormat::ChannelsLast:
      return graph::MemoryFormat::kChannelsLast;
    case at::MemoryFormat::ChannelsLast3d:
      return graph::MemoryFormat::kChannelsLast3d;
    default:
      return graph::MemoryFormat::kContiguous;
  }
}

at::MemoryFormat format_of(graph::MemoryFormat format) {
  switch (format) {
    case graph::MemoryFormat::kChannelsLast:
      return at::MemoryFormat::ChannelsLast;
    case graph::MemoryFormat::kChannelsLast3d:
      return at::MemoryFormat::ChannelsLast3d;
    case graph::MemoryFormat::kContiguous:
    case graph::MemoryFormat::kPreserve:
      return at::MemoryFormat::Contiguous;
  }
  BRAZE_UNREACHABLE("memory format");
}

}  // namespace

Dims dims_in(const c10::IValue& value) {
  Dims dims;
  if (value.isNone()) return dims;
  if (value.isIntList()) {
    for (int64_t dim : value.toIntVector()) dims.push_back(dim);
  } else {
    for (const c10::SymInt& dim : value.toSymIntVector()) dims.push_back(dim);
  }
  return dims;
}

c10::SymInt int_in(const c10::IValue& value) {
  return value.isInt() ? c10::SymInt(value.toInt()) : value.toSymInt();
}

at::Tensor fresh(DimsRef sizes, at::ScalarType dtype) {
  GuardedSizes ask;
  return make_fake(graph::make_type(dtype_of(dtype), from_symints(sizes), {}, ask), true);
}

at::Tensor fresh_like(const at::Tensor& tensor, at::ScalarType dtype) {
  GuardedSizes ask;
  graph::TensorType type = type_of(tensor);
  bool row_major = false;
  type.strides = graph::like_strides(type, graph::MemoryFormat::kPreserve, ask, &row_major);
  type.dtype = dtype_of(dtype);
  return make_fake(type, row_major);
}

std::optional<at::MemoryFormat> plain_format(const at::Tensor& tensor) {
  GuardedSizes ask;
  const auto format = graph::plain_format(type_of(tensor), ask);
  return format ? std::optional(format_of(*format)) : std::nullopt;
}

bool is_sliced_row_major(const at::Tensor& tensor) {
  GuardedSizes ask;
  const graph::TensorType type = type_of(tensor);
  constexpr auto kRowMajor = graph::MemoryFormat::kContiguous;
  return !graph::is_dense_in_format(type, kRowMajor, ask) &&
         graph::suggested_format(type, ask) == kRowMajor;
}

at::Tensor fresh_in_format(DimsRef sizes, at::MemoryFormat format, at::ScalarType dtype) {
  if (format == at::MemoryFormat::Contiguous) return fresh(sizes, dtype);
  GuardedSizes ask;
  graph::TensorType type;
  type.dtype = dtype_of(dtype);
  type.sizes = from_symints(sizes);
  type.strides = graph::format_strides(type.sizes, graph_format(format), ask);
  return make_fake(type);
}

}  // namespace braze::trace
