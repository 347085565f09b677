#include "graph/infer/call.h"

#include <algorithm>

#include "graph/devices.h"

namespace braze::graph {

std::span<Value* const> InferCall::tensors(int i) const {
  const auto* values = std::get_if<std::vector<Value*>>(&list()[i]);
  BRAZE_CHECK(values, "argument ", i, " is no list of tensors");
  return *values;
}

std::span<const sym::Int> InferCall::dims(int i) const {
  const Argument& argument = list()[i];
  if (const auto* dims = std::get_if<sym::Dims>(&argument)) return *dims;
  if (const auto* one = std::get_if<sym::Int>(&argument)) return {one, 1};
  BRAZE_CHECK(std::holds_alternative<None>(argument), "argument ", i, " is no list of integers");
  return {};
}

const std::vector<bool>& InferCall::bools(int i) const {
  const auto* values = std::get_if<std::vector<bool>>(&list()[i]);
  BRAZE_CHECK(values, "argument ", i, " is no list of bools");
  return *values;
}

std::optional<int64_t> InferCall::dim(int i, int64_t rank) const {
  const int64_t dim = int_arg(args, i), range = std::max<int64_t>(rank, 1);
  if (dim < -range || dim >= range) return std::nullopt;
  return dim < 0 ? dim + range : dim;
}

bool InferCall::give_like(const TensorType& self, DType dtype, MemoryFormat format,
                          Device device) const {
  TensorType type;
  type.dtype = dtype;
  type.device = device;
  type.sizes = self.sizes;
  bool row_major = format == MemoryFormat::kContiguous;
  type.strides = like_strides(self, format, ask, &row_major);
  return give(std::move(type), row_major);
}

bool InferCall::give_in_format(sym::Dims sizes, MemoryFormat format, DType dtype,
                               Device device) const {
  TensorType type;
  type.dtype = dtype;
  type.device = device;
  type.strides = format_strides(sizes, format, ask);
  type.sizes = std::move(sizes);
  return give(std::move(type), format == MemoryFormat::kContiguous);
}

bool InferCall::give_elementwise(std::span<const TensorType* const> operands, DType dtype) const {
  std::optional<sym::Dims> sizes = try_broadcast(operands, ask);
  if (!sizes) return false;
  TensorType type;
  type.dtype = dtype;
  type.device = common_device(operands);
  bool row_major = false;
  type.strides = pointwise_strides(operands, *sizes, ask, &row_major);
  type.sizes = std::move(*sizes);
  return give(std::move(type), row_major);
}

}  // namespace braze::graph
