#include <algorithm>
#include <limits>
#include <optional>

#include "graph/arguments.h"
#include "graph/infer/strides.h"
#include "graph/op_kind.h"
#include "passes/decompose_rules.h"

// PyTorch's maximum of windows on a CPU compares one element at a time unless channels lie side by
// side. As comparisons of shifted inputs it is vectors along a row. On a GPU the shifted inputs are
// read at clamped places, and nothing but the result is written.
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
constexpr int64_t kMostPointsOnGpu = 25;

// The windows along one dimension.
struct Windows {
  int64_t size;  // of the input
  int64_t count;
  int64_t kernel, stride, padding;

  // What the last window reaches beyond the input.
  int64_t beyond() const {
    return std::max<int64_t>(0, (count - 1) * stride + kernel - padding - size);
  }
  bool are_whole() const { return padding == 0 && beyond() == 0; }
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
Value* positions(Emitter& emit, const Windows& windows, int64_t offset, int64_t scale,
                 graph::Device device) {
  const int64_t begin = (offset - windows.padding) * scale, step = windows.stride * scale;
  const Argument where = device.type == graph::Device::Type::kCPU ? Argument(None{}) : device;
  return emit(OpKind::karange_start_step, {Int(begin), Int(begin + windows.count * step), Int(step),
                                           DType::kInt64, None{}, where, None{}});
}

// The maxima and, where they are used, their places in the plane, as PyTorch finds them: the first
// of equal ones, the last NaN, and where nothing is above -inf the window's first element, or on a
// GPU with channels last the plane's.
class MaxPool {
 public:
  // `channels_last`: they lie so in the results; those of the input are its last dimension already.
  MaxPool(Emitter& emit, Value* input, const Windows& rows, const Windows& columns,
          bool channels_last)
      : emit_(emit),
        input_(input),
        rows_(rows),
        columns_(columns),
        channels_last_(channels_last),
        source_(input) {
    const Dims padding = {columns.padding, columns.beyond(), rows.padding, rows.beyond()};
    if (!on_gpu() && padding != Dims(4, 0))
      source_ = emit(OpKind::kconstant_pad_nd, {input, padding, kLowest});
  }

  Replacement results(bool asks_where) {
    Value* best = full(graph::compute_dtype(input_->type().dtype), kLowest);
    Value* where = nullptr;
    if (asks_where && channels_last_) {
      where = full(DType::kInt64, Int(0));
    } else if (asks_where) {
      const auto inside = [&](Value* first) { return emit_(OpKind::kclamp_min, {first, Int(0)}); };
      where = place(inside(at_rows(0, columns_.size)), inside(at_columns(0)));
    }
    for (int64_t i = 0; i < rows_.kernel; ++i) {
      Value* lines = reads_at_places() ? nullptr : shifted(emit_, source_, height(), rows_, i);
      Value* row = asks_where ? at_rows(i, columns_.size) : nullptr;
      for (int64_t j = 0; j < columns_.kernel; ++j) {
        Value* x = lines ? shifted(emit_, lines, height() + 1, columns_, j) : at_places(i, j);
        x = in_compute_dtype(emit_, x);
        Value* above = emit_(OpKind::kbitwise_or_Tensor, {emit_(OpKind::kgt_Tensor, {x, best}),
                                                          emit_.unary(OpKind::kisnan, x)});
        best = emit_.where(above, x, best);
        if (asks_where) where = emit_.where(above, place(row, at_columns(j)), where);
      }
    }
    if (channels_last_) {
      best = emit_.permute(best, {0, 3, 1, 2});
      if (where) where = emit_.permute(where, {0, 3, 1, 2});
    }
    return {best, where};
  }

 private:
  static constexpr double kLowest = -std::numeric_limits<double>::infinity();

  graph::Device device() const { return input_->type().device; }
  bool on_gpu() const { return device().type != graph::Device::Type::kCPU; }
  int64_t height() const { return input_->type().rank() - 2 - (channels_last_ ? 1 : 0); }
  bool reads_at_places() const { return on_gpu() && !(rows_.are_whole() && columns_.are_whole()); }

  Value* full(DType dtype, Argument number) {
    TensorType type = graph::make_type(dtype, {});
    type.device = device();
    return emit_.full(type, number);
  }

  // Of the windows' elements `offset`. On a GPU those of the padding are the nearest one inside,
  // which is of the window too.
  Value* at(const Windows& windows, int64_t offset, int64_t scale) {
    Value* places = positions(emit_, windows, offset, scale, device());
    if (!reads_at_places() || windows.are_whole()) return places;
    return emit_(OpKind::kclamp, {places, Int(0), Int((windows.size - 1) * scale)});
  }
  Value* at_rows(int64_t offset, int64_t scale) { return at(rows_, offset, scale); }
  Value* at_columns(int64_t offset) { return at(columns_, offset, 1); }

  // Of one element of each window, by its coordinates.
  Value* place(Value* row, Value* column) {
    Value* plane = emit_.add(emit_.reshape(row, {rows_.count, 1}), column);
    return channels_last_ ? emit_.reshape(plane, {rows_.count, columns_.count, 1}) : plane;
  }

  // Element (i, j) of each window.
  Value* at_places(int64_t i, int64_t j) {
    graph::OptionalRefs<Value*> indices;
    indices.refs.resize(height());
    indices.refs.emplace_back(emit_.reshape(at_rows(i, 1), {rows_.count, 1}));
    indices.refs.emplace_back(at_columns(j));
    return emit_(OpKind::kindex_Tensor, {input_, std::move(indices)});
  }

  Emitter& emit_;
  Value* input_;
  const Windows rows_, columns_;
  const bool channels_last_;
  Value* source_;  // of shifted inputs
};

Replacement max_pool(Emitter& emit, const Node& node) {
  Value* input = graph::tensor_arg(node, 0);
  const TensorType& type = input->type();
  const TensorType& result = node.results()[0]->type();
  if (type.rank() != 3 && type.rank() != 4) return {};
  const auto rows = windows_of(node, 0), columns = windows_of(node, 1);
  if (!rows || !columns) return {};
  const int64_t points = rows->kernel * columns->kernel;
  if (type.device.type == graph::Device::Type::kCPU) {
    const bool contiguous = type.strides == graph::make_type(type.dtype, type.sizes).strides;
    if ((type.dtype != DType::kFloat32 && type.dtype != DType::kFloat64) || !contiguous ||
        !result.is_contiguous() || points > kMostPoints)
      return {};
  } else if (!graph::is_float(type.dtype) || points > kMostPointsOnGpu) {
    return {};
  }
  const bool channels_last = type.rank() == 4 && !result.is_contiguous();
  if (channels_last) input = emit.permute(input, {0, 2, 3, 1});
  return MaxPool(emit, input, *rows, *columns, channels_last).results(is_used(emit, node, 1));
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
