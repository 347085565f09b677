// Joining, repeating and padding.
#include <algorithm>
#include <optional>
#include <vector>

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
MemoryFormat common_format(std::span<const TensorType> tensors, SizeQuestions& ask) {
  std::optional<MemoryFormat> format;
  for (const TensorType& tensor : tensors) {
    const MemoryFormat own = suggested_format(tensor, ask);
    if (own == MemoryFormat::kContiguous || (format && *format != own))
      return MemoryFormat::kContiguous;
    format = own;
  }
  return *format;
}

std::vector<TensorType> types_of(std::span<Value* const> tensors) {
  std::vector<TensorType> types;
  types.reserve(tensors.size());
  for (const Value* tensor : tensors) types.push_back(tensor->type());
  return types;
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
  MemoryFormat format = common_format(types_of(tensors), call.ask);
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
  const auto count = static_cast<int64_t>(tensors.size());
  sym::Dims sizes = shape.sizes;
  sizes.insert(sizes.begin() + *dim, count);
  std::vector<TensorType> types = types_of(tensors);
  // Eager joins them as they are and splits the dimension, or joins them with a last one of size 1.
  const bool is_last = *dim == shape.rank();
  for (TensorType& type : types) {
    if (!is_last) break;
    type.sizes.push_back(1);
    type.strides.push_back(1);
  }
  const MemoryFormat format = common_format(types, call.ask);
  if (format == MemoryFormat::kContiguous)
    return call.give_fresh(std::move(sizes), common_dtype(call), shape.device);
  if (is_last)
    return call.give_in_format(std::move(sizes), format, common_dtype(call), shape.device);
  TensorType joined = std::move(types.front());
  joined.dtype = common_dtype(call);
  joined.offset = 0;
  joined.sizes[*dim] = joined.sizes[*dim] * count;
  joined.strides = format_strides(joined.sizes, format, call.ask);
  std::optional<sym::Dims> strides = view_strides(joined, sizes, call.ask);
  if (!strides) return false;
  joined.sizes = std::move(sizes);
  joined.strides = std::move(*strides);
  return call.give(std::move(joined));
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
  if (pad.size() % 2 != 0 || pad.size() > 2 * self.sizes.size()) return false;
  TensorType type = self;
  type.offset = 0;
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    Int& size = type.sizes[type.sizes.size() - 1 - i];
    size = size + pad[2 * i] + pad[2 * i + 1];
    if (call.ask.less(size, 1)) return false;
  }
  const auto is_plainly_positive = [](const Int& count) {
    return count.is_constant() && count.constant() > 0;
  };
  const bool adds =
      std::ranges::any_of(pad, is_plainly_positive) ||
      std::ranges::any_of(pad, [&](const Int& count) { return call.ask.less(0, count); });
  // What only crops is a copy of a slice.
  if (!adds) return call.give_like(type, self.dtype);
  const MemoryFormat format = suggested_format(self, call.ask);
  return call.give_in_format(std::move(type.sizes), format, self.dtype, self.device);
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
