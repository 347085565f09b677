#include <algorithm>
#include <limits>
#include <optional>

#include "graph/arguments.h"
#include "graph/infer/strides.h"
#include "passes/decompose_rules.h"

// PyTorch's maximum of windows on a CPU compares one element at a time unless channels lie side by
// side. As comparisons of shifted inputs it is vectors along a row.
namespace braze::passes {

using graph::Argument;
using graph::DType;
using graph::Emitter;
using graph::Node;
using graph::None;
using graph::OpKind;
using graph::TensorType;
using graph::Value;
using sym::Dims;
using sym::Int;

namespace {

// Each point of a window is an operand of an expression.
constexpr int64_t kMostPoints = 9;

// The windows along one dimension.
struct Windows {
  int64_t size;  // of the input
  int64_t count;
  int64_t kernel, stride, padding;

  // What the last window reaches beyond the input.
  int64_t beyond() const {
    return std::max<int64_t>(0, (count - 1) * stride + kernel - padding - size);
  }
};

// kernel_size, stride, padding of one of the two dimensions; stride is kernel_size where absent.
std::optional<Windows> windows_of(const Node& node, int64_t dim) {
  const TensorType& input = graph::tensor_arg(node, 0)->type();
  const TensorType& result = node.results()[0]->type();
  const auto along = [&](int argument, int64_t otherwise) -> std::optional<int64_t> {
    if (graph::is_none(node, argument)) return otherwise;
    const Dims given = graph::dims_arg(node, argument);
    if (given.empty()) return otherwise;
    const Int& value = given[given.size() == 1 ? 0 : dim];
    if (!value.is_constant()) return std::nullopt;
    return value.constant();
  };
  const Int& size = input.sizes[input.rank() - 2 + dim];
  const Int& count = result.sizes[result.rank() - 2 + dim];
  const auto kernel = along(1, 0);
  if (!kernel || !size.is_constant() || !count.is_constant()) return std::nullopt;
  const auto stride = along(2, *kernel), padding = along(3, 0), dilation = along(4, 1);
  if (!stride || !padding || dilation != 1) return std::nullopt;
  return Windows{size.constant(), count.constant(), *kernel, *stride, *padding};
}

// Element `offset` of each window along dimension `dim` of the padded input.
Value* shifted(Emitter& emit, Value* padded, int64_t dim, const Windows& windows, int64_t offset) {
  const Int end = offset + (windows.count - 1) * windows.stride + 1;
  return emit(OpKind::kslice_Tensor, {padded, Int(dim), Int(offset), end, Int(windows.stride)});
}

// (offset - padding + window * stride) * scale for each window.
Value* positions(Emitter& emit, const Windows& windows, int64_t offset, int64_t scale) {
  const int64_t begin = (offset - windows.padding) * scale, step = windows.stride * scale;
  return emit(OpKind::karange_start_step, {Int(begin), Int(begin + windows.count * step), Int(step),
                                           DType::kInt64, None{}, None{}, None{}});
}

// The maxima and, where they are used, their places in the plane, as PyTorch finds them: the first
// of equal ones, the last NaN, and the window's first element where nothing is above -inf.
Replacement max_pool(Emitter& emit, const Node& node) {
  Value* input = graph::tensor_arg(node, 0);
  const TensorType& type = input->type();
  const TensorType& result = node.results()[0]->type();
  if (type.device.type != graph::Device::Type::kCPU || (type.rank() != 3 && type.rank() != 4) ||
      (type.dtype != DType::kFloat32 && type.dtype != DType::kFloat64) ||
      type.strides != graph::make_type(type.dtype, type.sizes).strides || !result.is_contiguous())
    return {};
  const auto rows = windows_of(node, 0), columns = windows_of(node, 1);
  if (!rows || !columns || rows->kernel * columns->kernel > kMostPoints) return {};

  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  Value* padded = input;
  const Dims padding = {columns->padding, columns->beyond(), rows->padding, rows->beyond()};
  if (padding != Dims(4, 0)) padded = emit(OpKind::kconstant_pad_nd, {input, padding, kLowest});

  const bool asks_where = is_used(emit, node, 1);
  // Of one element of each window, by its coordinates.
  const auto place = [&](Value* row, Value* column) {
    return emit.add(emit.reshape(row, {rows->count, 1}), column);
  };
  Value* best = emit.full(graph::make_type(type.dtype, {}), kLowest);
  Value* where = nullptr;
  if (asks_where) {
    const auto inside = [&](Value* first) { return emit(OpKind::kclamp_min, {first, Int(0)}); };
    where = place(inside(positions(emit, *rows, 0, columns->size)),
                  inside(positions(emit, *columns, 0, 1)));
  }
  const int64_t height = type.rank() - 2, width = type.rank() - 1;
  for (int64_t i = 0; i < rows->kernel; ++i) {
    Value* lines = shifted(emit, padded, height, *rows, i);
    Value* row = asks_where ? positions(emit, *rows, i, columns->size) : nullptr;
    for (int64_t j = 0; j < columns->kernel; ++j) {
      Value* x = shifted(emit, lines, width, *columns, j);
      Value* above = emit(OpKind::kbitwise_or_Tensor,
                          {emit(OpKind::kgt_Tensor, {x, best}), emit.unary(OpKind::kisnan, x)});
      best = emit.where(above, x, best);
      if (asks_where) where = emit.where(above, place(row, positions(emit, *columns, j, 1)), where);
    }
  }
  return {best, where};
}

}  // namespace

Replacement decompose_pooling(Emitter& emit, const Node& node) {
  switch (node.op().kind) {
    case OpKind::kmax_pool2d_with_indices:
      return max_pool(emit, node);
    default:
      return {};
  }
}

}  // namespace braze::passes
