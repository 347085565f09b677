// Images rearranged: pixels from channels and back, groups of channels, windows as columns and the
// sum of such. Nothing but the result is written.
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <span>

#include "graph/arguments.h"
#include "graph/infer/strides.h"
#include "graph/op_kind.h"
#include "passes/decompose_rules.h"

namespace braze::passes {

using graph::DType;
using graph::Emitter;
using graph::MemoryFormat;
using graph::Node;
using graph::None;
using graph::OpKind;
using graph::TensorType;
using graph::Value;
using sym::Dims;
using sym::Int;

namespace {

// Each point of a window is an operand of an expression.
constexpr int64_t kMostWindowPoints = 25;

using Groups = std::vector<std::vector<int64_t>>;

bool are_constant(std::span<const Int> numbers) {
  return std::ranges::all_of(numbers, [](const Int& number) { return number.is_constant(); });
}

bool is_on_cpu(const TensorType& type) { return type.device.type == graph::Device::Type::kCPU; }

// In fresh memory the tensor whose dimension i is made of the dimensions groups[i] of `parts`. With
// channels innermost where the result has them so.
Value* merged(Emitter& emit, Value* parts, const Groups& groups, const TensorType& result) {
  std::vector<int64_t> places(groups.size());  // dimensions from the outermost to the innermost
  std::iota(places.begin(), places.end(), 0);
  const bool channels_last = result.rank() >= 4 && !result.is_contiguous();
  if (channels_last) std::rotate(places.begin() + 1, places.begin() + 2, places.end());
  std::vector<int64_t> order, back(groups.size());
  Dims sizes;
  for (size_t i = 0; i < places.size(); ++i) {
    const std::vector<int64_t>& group = groups[places[i]];
    order.insert(order.end(), group.begin(), group.end());
    sizes.push_back(result.sizes[places[i]]);
    back[places[i]] = static_cast<int64_t>(i);
  }
  Value* copy =
      emit(OpKind::kclone, {emit.permute(parts, std::move(order)), MemoryFormat::kContiguous});
  Value* whole = emit.reshape(copy, std::move(sizes));
  return channels_last ? emit.permute(whole, std::move(back)) : whole;
}

// Dimensions before `count`, a group each.
Groups alone(int64_t count) {
  Groups groups;
  for (int64_t i = 0; i < count; ++i) groups.push_back({i});
  return groups;
}

// self, factor: [*, c * f * f, h, w] to [*, c, h * f, w * f]
Replacement pixel_shuffle(Emitter& emit, const Node& node) {
  Value* x = graph::tensor_arg(node, 0);
  const TensorType& result = node.result()->type();
  const Int factor = graph::sym_arg(node, 1);
  const int64_t first = x->type().rank() - 3;
  Dims sizes = x->type().sizes;
  if (!factor.is_constant() || !sizes[first].is_constant()) return {};
  sizes[first] = result.sizes[first];
  sizes.insert(sizes.begin() + first + 1, {factor, factor});
  Groups groups = alone(first + 1);
  groups.push_back({first + 3, first + 1});
  groups.push_back({first + 4, first + 2});
  return {merged(emit, emit.reshape(x, std::move(sizes)), groups, result)};
}

// self, factor: [*, c, h * f, w * f] to [*, c * f * f, h, w]
Replacement pixel_unshuffle(Emitter& emit, const Node& node) {
  Value* x = graph::tensor_arg(node, 0);
  const TensorType& result = node.result()->type();
  const Int factor = graph::sym_arg(node, 1);
  const int64_t first = x->type().rank() - 3;
  const Dims& given = x->type().sizes;
  if (!factor.is_constant() || !are_constant(std::span(given).subspan(first))) return {};
  Dims sizes(given.begin(), given.begin() + first + 1);
  for (const int64_t i : {first + 1, first + 2}) {
    sizes.push_back(result.sizes[i]);
    sizes.push_back(factor);
  }
  Groups groups = alone(first);
  groups.push_back({first, first + 2, first + 4});
  groups.push_back({first + 1});
  groups.push_back({first + 3});
  return {merged(emit, emit.reshape(x, std::move(sizes)), groups, result)};
}

// self, groups: channel (i, j) of [groups, c / groups] to (j, i)
Replacement channel_shuffle(Emitter& emit, const Node& node) {
  Value* x = graph::tensor_arg(node, 0);
  const TensorType& result = node.result()->type();
  const Int count = graph::sym_arg(node, 1);
  Dims sizes = x->type().sizes;
  if (!count.is_constant() || !sizes[1].is_constant() || result.rank() > 5) return {};
  sizes[1] = sym::floordiv(sizes[1], count);
  sizes.insert(sizes.begin() + 1, count);
  Groups groups = {{0}, {2, 1}};
  for (int64_t i = 2; i < result.rank(); ++i) groups.push_back({i + 1});
  return {merged(emit, emit.reshape(x, std::move(sizes)), groups, result)};
}

// Windows of an image, by dimension.
struct ImageWindows {
  int64_t size, count;  // of the image; how many windows
  int64_t kernel, dilation, padding, stride;

  int64_t reach() const { return dilation * (kernel - 1) + 1; }
};

// kernel_size, dilation, padding, stride from argument `first` on.
std::optional<std::array<ImageWindows, 2>> windows_of(const Node& node, int first,
                                                      std::span<const Int> image) {
  if (image.size() != 2 || !are_constant(image)) return std::nullopt;
  std::array<ImageWindows, 2> windows;
  for (int argument = first; argument < first + 4; ++argument) {
    const Dims given = graph::dims_arg(node, argument);
    if (given.size() != 2 || !are_constant(given)) return std::nullopt;
    for (int i = 0; i < 2; ++i) {
      int64_t ImageWindows::*const members[] = {&ImageWindows::kernel, &ImageWindows::dilation,
                                                &ImageWindows::padding, &ImageWindows::stride};
      windows[i].*members[argument - first] = given[i].constant();
    }
  }
  for (int i = 0; i < 2; ++i) {
    windows[i].size = image[i].constant();
    const int64_t room = windows[i].size + 2 * windows[i].padding - windows[i].reach();
    windows[i].count = room < 0 ? 0 : room / windows[i].stride + 1;
    if (windows[i].count == 0) return std::nullopt;
  }
  return windows;
}

// self, kernel_size, dilation, padding, stride: [n, c, h, w] to [n, c * kernel, windows]
Replacement columns_of_image(Emitter& emit, const Node& node) {
  Value* x = graph::tensor_arg(node, 0);
  const int64_t rank = x->type().rank(), rows = rank - 2, columns = rank - 1;
  if ((rank != 3 && rank != 4) || !x->type().sizes[rank - 3].is_constant()) return {};
  const auto windows = windows_of(node, 1, std::span(x->type().sizes).last(2));
  if (!windows) return {};
  const int64_t high = windows->at(0).padding, wide = windows->at(1).padding;
  if (high != 0 || wide != 0)
    x = emit(OpKind::kconstant_pad_nd, {row_major(emit, x), Dims{wide, wide, high, high}, Int(0)});
  for (int64_t i = 0; i < 2; ++i)
    x = emit(OpKind::kunfold,
             {x, Int(rows + i), Int(windows->at(i).reach()), Int(windows->at(i).stride)});
  for (int64_t i = 0; i < 2; ++i)
    if (windows->at(i).dilation != 1)
      x = emit(OpKind::kslice_Tensor, {x, Int(rank + i), Int(0), Int(windows->at(i).reach()),
                                       Int(windows->at(i).dilation)});
  Groups groups = alone(rank - 3);
  groups.push_back({rank - 3, rank, rank + 1});
  groups.push_back({rows, columns});
  return {merged(emit, x, groups, node.result()->type())};
}

// The sum over the windows that a pixel is in, in the order in which PyTorch adds: on a CPU that of
// a window's points, on a GPU that of the windows, in single precision of halves.
class ImageOfColumns {
 public:
  // `points`: [..., kernel, kernel, windows, windows]
  ImageOfColumns(Emitter& emit, Value* points, const std::array<ImageWindows, 2>& windows)
      : emit_(emit), points_(points), rows_(windows[0]), columns_(windows[1]) {}

  Value* sum() {
    const int64_t count = rows_.kernel * columns_.kernel;
    const bool on_cpu = is_on_cpu(points_->type());
    Value* total = nullptr;
    for (int64_t next = 0; next < count; ++next) {
      const int64_t point = on_cpu ? next : count - 1 - next;
      Value* part = at(point / columns_.kernel, point % columns_.kernel);
      if (!on_cpu) part = in_compute_dtype(emit_, part);
      total = total ? emit_.add(total, part) : emit_.add(part, 0.0);  // of -0 the sum is 0
    }
    return total;
  }

 private:
  // Where a window's point lies that is the pixel, and whether there is one.
  struct Places {
    Value *place, *is_there;
  };

  Value* select(Value* x, int64_t index, int64_t from_the_end) {
    return emit_(OpKind::kselect_int, {x, Int(x->type().rank() - from_the_end), Int(index)});
  }

  // What point (i, j) of windows adds to the pixels.
  Value* at(int64_t i, int64_t j) {
    Value* part = select(select(points_, i, 4), j, 3);
    if (rows_.stride == 1 && columns_.stride == 1) {
      const auto [top, bottom] = border(rows_, i);
      const auto [left, right] = border(columns_, j);
      return emit_(OpKind::kconstant_pad_nd,
                   {row_major(emit_, part), Dims{left, right, top, bottom}, Int(0)});
    }
    const Places rows = places(rows_, i), columns = places(columns_, j);
    const auto upright = [&](Value* x) { return emit_.reshape(x, {rows_.size, 1}); };
    graph::OptionalRefs<Value*> indices;
    indices.refs.resize(part->type().rank() - 2);
    indices.refs.emplace_back(upright(rows.place));
    indices.refs.emplace_back(columns.place);
    Value* is_there = emit_(OpKind::klogical_and, {upright(rows.is_there), columns.is_there});
    const TensorType number = graph::make_type(part->type().dtype, {}, part->type().device);
    return emit_.where(is_there, emit_(OpKind::kindex_Tensor, {part, std::move(indices)}),
                       emit_.full(number, 0.0));
  }

  static std::pair<Int, Int> border(const ImageWindows& windows, int64_t offset) {
    const int64_t before = offset * windows.dilation - windows.padding;
    return {Int(before), Int(windows.size - windows.count - before)};
  }

  Places places(const ImageWindows& windows, int64_t offset) {
    const graph::Device device = points_->type().device;
    const int64_t begin = windows.padding - offset * windows.dilation;
    const graph::Argument where = is_on_cpu(points_->type()) ? graph::Argument(None{}) : device;
    Value* from = emit_(OpKind::karange_start_step, {Int(begin), Int(begin + windows.size), Int(1),
                                                     DType::kInt64, None{}, where, None{}});
    Value* window = emit_(OpKind::kfloor_divide_Scalar, {from, Int(windows.stride)});
    Value* place = emit_(OpKind::kclamp, {window, Int(0), Int(windows.count - 1)});
    return {place, emit_(OpKind::keq_Tensor, {emit_.mul(place, Int(windows.stride)), from})};
  }

  Emitter& emit_;
  Value* points_;
  const ImageWindows rows_, columns_;
};

// self, output_size, kernel_size, dilation, padding, stride: [n, c * kernel, windows] to [n, c, h,
// w]
Replacement image_of_columns(Emitter& emit, const Node& node) {
  Value* x = graph::tensor_arg(node, 0);
  const TensorType& result = node.result()->type();
  const int64_t rank = x->type().rank();
  const auto windows = windows_of(node, 2, std::span(result.sizes).last(2));
  if (!windows || (rank != 2 && rank != 3) || !graph::is_float(result.dtype)) return {};
  const auto& [rows, columns] = *windows;
  if (rows.kernel * columns.kernel > kMostWindowPoints ||
      x->type().sizes.back() != Int(rows.count * columns.count))
    return {};
  const bool is_dense = rows.stride == 1 && columns.stride == 1;
  if (!is_dense && is_on_cpu(result)) return {};
  Dims sizes(result.sizes.begin(), result.sizes.end() - 2);
  for (const int64_t size : {rows.kernel, columns.kernel, rows.count, columns.count})
    sizes.push_back(size);
  return {ImageOfColumns(emit, emit.reshape(x, std::move(sizes)), *windows).sum()};
}

using Rule = Replacement (*)(Emitter& emit, const Node& node);

Rule rule_of(OpKind kind) {
  switch (kind) {
    case OpKind::kpixel_shuffle:
      return pixel_shuffle;
    case OpKind::kpixel_unshuffle:
      return pixel_unshuffle;
    case OpKind::kchannel_shuffle:
      return channel_shuffle;
    case OpKind::kim2col:
      return columns_of_image;
    case OpKind::kcol2im:
      return image_of_columns;
    default:
      return nullptr;
  }
}

bool is_empty(const Value* value) {
  return std::ranges::find(value->type().sizes, Int(0)) != value->type().sizes.end();
}

}  // namespace

Replacement decompose_rearrangement(Emitter& emit, const Node& node) {
  const Rule rule = rule_of(node.op().kind);
  if (!rule || is_empty(node.result()) || is_empty(graph::tensor_arg(node, 0))) return {};
  return rule(emit, node);
}

}  // namespace braze::passes
