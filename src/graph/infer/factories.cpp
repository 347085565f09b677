// New tensors of given sizes, or of those of another one.
#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/infer/call.h"

namespace braze::graph {
namespace {

using sym::Int;

// Factories have their arguments for dtype, layout and device in this order. A negative size is an
// error.
bool make(const InferCall& call, sym::Dims sizes, int dtype_position, DType dtype,
          Device device = {}) {
  for (const Int& size : sizes)
    if (!call.ask.expect_at_least(size, 0)) return false;
  return call.give_fresh(std::move(sizes), call.dtype_or(dtype_position, dtype),
                         optional_device_arg(call.list(), dtype_position + 2).value_or(device));
}

sym::Dims sizes_in(const InferCall& call, int i) {
  const std::span<const Int> dims = call.dims(i);
  return {dims.begin(), dims.end()};
}

// size, dtype
bool zeros(const InferCall& call) { return make(call, sizes_in(call, 0), 1, call.default_dtype); }

// size, dtype, layout, device, pin_memory, memory_format
bool empty(const InferCall& call) {
  const auto format = optional_memory_format_arg(call.list(), 5);
  return format.value_or(MemoryFormat::kContiguous) == MemoryFormat::kContiguous && zeros(call);
}

// size, value, dtype
bool full(const InferCall& call) {
  return make(call, sizes_in(call, 0), 2, dtype_of_scalar(call[1], call.default_dtype));
}

// self, size, dtype
bool new_zeros(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  return make(call, sizes_in(call, 1), 2, self.dtype, self.device);
}

// self, size, value, dtype
bool new_full(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  return make(call, sizes_in(call, 1), 3, self.dtype, self.device);
}

// high, size, dtype
bool random_below(const InferCall& call) { return make(call, sizes_in(call, 1), 2, DType::kInt64); }

// low, high, size, dtype
bool random_between(const InferCall& call) {
  return make(call, sizes_in(call, 2), 3, DType::kInt64);
}

// n, dtype
bool eye(const InferCall& call) {
  const Int n = sym_arg(call.list(), 0);
  return make(call, {n, n}, 1, call.default_dtype);
}

// n, m, dtype
bool eye_of_two(const InferCall& call) {
  return make(call, {sym_arg(call.list(), 0), sym_arg(call.list(), 1)}, 2, call.default_dtype);
}

// value, dtype
bool scalar_tensor(const InferCall& call) { return make(call, {}, 1, call.default_dtype); }

// Of whole numbers the length is exact.
std::optional<Int> whole_length(const InferCall& call, Int from, Int to, Int by) {
  if (call.ask.less(by, 0)) {
    std::swap(from, to);
    by = Int(0) - by;
  }
  const Int length = to - from;
  if (!call.ask.less(0, by) || !call.ask.expect_at_least(length, 0)) return std::nullopt;
  return by == Int(1) ? length : sym::floordiv(length + by - 1, by);
}

// start, end, step, of which the first and the last may be missing; then dtype.
template <int count>
bool arange(const InferCall& call) {
  const auto numbers = call.args.first(count);
  const Argument none = Int(0), one = Int(1);
  const Argument& start = count > 1 ? numbers[0] : none;
  const Argument& end = count > 1 ? numbers[1] : numbers[0];
  const Argument& step = count > 2 ? numbers[count - 1] : one;
  const auto is_whole = [](const Argument& n) { return std::holds_alternative<Int>(n); };
  if (is_whole(start) && is_whole(end) && is_whole(step)) {
    const auto size =
        whole_length(call, std::get<Int>(start), std::get<Int>(end), std::get<Int>(step));
    if (size) return make(call, {*size}, count, DType::kInt64);
  }
  const auto is_known = [&](const Argument& n) {
    return !is_whole(n) || std::get<Int>(n).is_constant();
  };
  if (!call.checked || !is_known(start) || !is_known(end) || !is_known(step)) return false;
  const double from = scalar_to_double(start), by = scalar_to_double(step);
  const auto size = static_cast<int64_t>(std::ceil((scalar_to_double(end) - from) / by));
  const bool integral = std::ranges::none_of(
      numbers, [](const Argument& n) { return scalar_kind(n) == DTypeKind::kFloat; });
  return make(call, {std::max<int64_t>(size, 0)}, count,
              integral ? DType::kInt64 : call.default_dtype);
}

bool give_like_argument(const InferCall& call, int dtype_position, int format_position) {
  const TensorType& self = call.tensor(0);
  const MemoryFormat format =
      optional_memory_format_arg(call.list(), format_position).value_or(MemoryFormat::kPreserve);
  const bool fits = format == MemoryFormat::kPreserve || format == MemoryFormat::kContiguous ||
                    self.rank() == (format == MemoryFormat::kChannelsLast ? 4 : 5);
  return fits &&
         call.give_like(self, call.dtype_or(dtype_position, self.dtype), format,
                        optional_device_arg(call.list(), dtype_position + 2).value_or(self.device));
}

// self, *, dtype, layout, device, pin_memory, memory_format
bool like(const InferCall& call) { return give_like_argument(call, 1, 5); }
// self, value, *, dtype, layout, device, pin_memory, memory_format
bool full_like(const InferCall& call) { return give_like_argument(call, 2, 6); }

// A result with the values of argument 0, some or all replaced, in the layout of its clone.
bool replaced(const InferCall& call) {
  return call.give_like(call.tensor(0), call.tensor(0).dtype);
}

constexpr InferEntry kFactoriesRules[] = {
    {"aten.arange", arange<1>},
    {"aten.arange.start", arange<2>},
    {"aten.arange.start_step", arange<3>},
    {"aten.zeros", zeros},
    {"aten.ones", zeros},
    {"aten.empty.memory_format", empty},
    {"aten.full", full},
    {"aten.new_zeros", new_zeros},
    {"aten.new_ones", new_zeros},
    {"aten.new_empty", new_zeros},
    {"aten.new_full", new_full},
    {"aten.rand", zeros},
    {"aten.randn", zeros},
    {"aten.randint", random_below},
    {"aten.randint.low", random_between},
    {"aten.eye", eye},
    {"aten.eye.m", eye_of_two},
    {"aten.empty_like", like},
    {"aten.zeros_like", like},
    {"aten.ones_like", like},
    {"aten.rand_like", like},
    {"aten.randn_like", like},
    {"aten.full_like", full_like},
    {"aten.scalar_tensor", scalar_tensor, InferUse::kPasses},
    {"aten.lift_fresh_copy", replaced, InferUse::kPasses},
    {"aten.copy", replaced, InferUse::kPasses},
    {"aten.fill.Scalar", replaced, InferUse::kPasses},
    {"aten.fill.Tensor", replaced, InferUse::kPasses},
};

}  // namespace

std::span<const InferEntry> infer_factories() { return kFactoriesRules; }

}  // namespace braze::graph
