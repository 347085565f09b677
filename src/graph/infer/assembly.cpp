// Joining, repeating and padding.
#include <algorithm>

#include "graph/infer/call.h"

namespace braze::graph {
namespace {

using sym::Int;

// A tensor of size [0] joins with anything, as eager allows it for old programs.
bool is_nothing(const TensorType& type) { return type.rank() == 1 && type.sizes[0] == Int(0); }

DType common_dtype(const InferCall& call) {
  return result_type(call.args.first(1), call.default_dtype);
}

// The order of channels that all of them have; what is joined keeps it.
MemoryFormat common_format(std::span<Value* const> tensors, SizeQuestions& ask) {
  std::optional<MemoryFormat> format;
  for (const Value* tensor : tensors) {
    const MemoryFormat own = suggested_format(tensor->type(), ask);
    if (own == MemoryFormat::kContiguous || (format && *format != own))
      return MemoryFormat::kContiguous;
    format = own;
  }
  return *format;
}

// tensors, dim
bool cat(const InferCall& call) {
  const std::span<Value* const> tensors = call.tensors(0);
  const auto is_part = [](const Value* tensor) { return !is_nothing(tensor->type()); };
  if (tensors.empty()) return false;
  auto first = std::ranges::find_if(tensors, is_part);
  if (first == tensors.end()) {
    if (!call.checked) return false;
    first = tensors.begin();
  }
  const TensorType& shape = (*first)->type();
  const auto dim = call.absent(1) ? std::optional<int64_t>(0) : call.dim(1, shape.rank());
  if (shape.rank() == 0 || !dim) return false;  // an error
  sym::Dims sizes = shape.sizes;
  for (auto tensor = first + 1; tensor < tensors.end(); ++tensor) {
    const TensorType& type = (*tensor)->type();
    if (is_nothing(type)) continue;
    if (type.rank() != shape.rank()) return false;
    for (int64_t d = 0; d < shape.rank(); ++d) {
      if (d == *dim)
        sizes[d] = sizes[d] + type.sizes[d];
      else if (!call.ask.fit(sizes[d], type.sizes[d]))
        return false;
    }
  }
  MemoryFormat format = common_format(tensors, call.ask);
  const bool has_it = format != MemoryFormat::kChannelsLast || sizes.size() == 4;
  if (!has_it || (format == MemoryFormat::kChannelsLast3d && sizes.size() != 5))
    format = MemoryFormat::kContiguous;
  return call.give_in_format(std::move(sizes), format, common_dtype(call), shape.device);
}

// tensors, dim
bool stack(const InferCall& call) {
  const std::span<Value* const> tensors = call.tensors(0);
  if (tensors.empty()) return false;
  const TensorType& shape = tensors[0]->type();
  const auto dim = call.absent(1) ? std::optional<int64_t>(0) : call.dim(1, shape.rank() + 1);
  if (!dim) return false;
  for (const Value* tensor : tensors)
    if (!call.ask.all_fit(tensor->type().sizes, shape.sizes)) return false;
  sym::Dims sizes = shape.sizes;
  sizes.insert(sizes.begin() + *dim, static_cast<int64_t>(tensors.size()));
  if (sizes.size() == 4 || sizes.size() == 5) {
    // Joined as tensors with the new dimension, which then may have the order of channels.
    for (const Value* tensor : tensors)
      if (!is_row_major(tensor->type(), call.ask)) return false;
    if (*dim == 1 && sizes[1] == Int(1)) return false;
  }
  return call.give_fresh(std::move(sizes), common_dtype(call), shape.device);
}

// self, repeats
bool repeat(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const std::span<const Int> repeats = call.dims(1);
  if (repeats.size() < self.sizes.size()) return false;
  for (const Int& count : repeats)
    if (call.ask.less(count, 0)) return false;  // an error
  sym::Dims sizes(repeats.begin(), repeats.end());
  const size_t first = sizes.size() - self.sizes.size();
  for (size_t i = 0; i < self.sizes.size(); ++i)
    sizes[first + i] = sizes[first + i] * self.sizes[i];
  return call.give_fresh(std::move(sizes), self.dtype, self.device);
}

// self, pad, value
bool constant_pad(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const std::span<const Int> pad = call.dims(1);
  if (!is_row_major(self, call.ask)) return false;
  if (pad.size() % 2 != 0 || pad.size() > 2 * self.sizes.size()) return false;
  sym::Dims sizes = self.sizes;
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    Int& size = sizes[sizes.size() - 1 - i];
    size = size + pad[2 * i] + pad[2 * i + 1];
    if (call.ask.less(size, 1)) return false;
  }
  return call.give_fresh(std::move(sizes), self.dtype, self.device);
}

constexpr InferEntry kAssemblyRules[] = {
    {"aten.cat", cat},
    {"aten.stack", stack},
    {"aten.repeat", repeat, InferUse::kAlways},
    {"aten.constant_pad_nd", constant_pad},
};

}  // namespace

std::span<const InferEntry> infer_assembly() { return kAssemblyRules; }

}  // namespace braze::graph
