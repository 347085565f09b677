#include "passes/pointwise_convolution.h"

#include <algorithm>

#include "graph/arguments.h"
#include "graph/emitter.h"
#include "graph/infer/strides.h"
#include "graph/op_kind.h"
#include "passes/decompose_rules.h"
#include "passes/linear_pointwise.h"

namespace braze::passes {
namespace {

using graph::DType;
using graph::Emitter;
using graph::Node;
using graph::OpKind;
using graph::TensorType;
using graph::Value;
using sym::Dims;
using sym::Int;

// Channels and multiplications from which on a product pays.
constexpr int64_t kLeastChannels = 16, kLeastWork = 1 << 17;
constexpr int64_t kManyPoints = 512;

const graph::Op& backward_op() {
  static const graph::Op& op = graph::find_or_add_op("aten.convolution_backward");
  return op;
}

bool is_on_cpu(const Value* value) {
  return value->type().dtype == DType::kFloat32 &&
         value->type().device.type == graph::Device::Type::kCPU;
}

bool are_all(std::span<const Int> list, int64_t value) {
  return std::ranges::all_of(list, [&](const Int& each) { return each == Int(value); });
}

enum class Layout { kChannelsFirst, kChannelsLast, kOther };

Layout layout_of(const TensorType& type) {
  if (type.is_contiguous()) return Layout::kChannelsFirst;
  if (type.rank() == 4 &&
      type.strides == graph::like_strides(type, graph::MemoryFormat::kChannelsLast))
    return Layout::kChannelsLast;
  return Layout::kOther;
}

// y = x * weight: of images [batch, channels, points...].
struct PointConvolution {
  Value *x = nullptr, *weight = nullptr;
  Dims stride;
  const TensorType* y = nullptr;
  Layout layout = Layout::kOther;

  Int batch() const { return y->sizes[0]; }
  Int inputs() const { return weight->type().sizes[1]; }
  Int outputs() const { return weight->type().sizes[0]; }
  Int points() const {
    Int points = 1;
    for (size_t i = 2; i < y->sizes.size(); ++i) points = points * y->sizes[i];
    return points;
  }
};

// `at`: where the arguments of the node begin that follow a bias or its sizes.
bool is_of_points(const Node& node, int at, const PointConvolution& c) {
  const Dims& weight = c.weight->type().sizes;
  const auto rank = static_cast<size_t>(c.x->type().rank());
  return is_on_cpu(c.x) && is_on_cpu(c.weight) && c.y->dtype == DType::kFloat32 && rank >= 3 &&
         weight.size() == rank && c.y->sizes.size() == rank &&
         are_all(std::span(weight).subspan(2), 1) && are_all(graph::dims_arg(node, at + 1), 0) &&
         !graph::bool_arg(node, at + 3) && graph::sym_arg(node, at + 5) == Int(1) &&
         c.stride.size() == rank - 2;
}

bool pays(const PointConvolution& c) {
  if (!c.inputs().is_constant() || !c.outputs().is_constant()) return false;
  const int64_t inputs = c.inputs().constant(), outputs = c.outputs().constant();
  const int64_t points = c.points().hint(), batch = c.batch().hint();
  if (inputs < kLeastChannels || outputs < kLeastChannels || points == 0 || batch == 0)
    return false;
  return inputs * outputs * points * batch >= kLeastWork &&
         (c.layout == Layout::kChannelsLast || fills_panels(points));
}

// Those of the points that are looked at.
Value* strided(Emitter& emit, const PointConvolution& c) {
  Value* x = c.x;
  for (size_t i = 0; i < c.stride.size(); ++i)
    if (c.stride[i] != Int(1))
      x = emit(OpKind::kslice_Tensor,
               {x, Int(static_cast<int64_t>(i) + 2), Int(0), x->type().sizes[i + 2], c.stride[i]});
  return x;
}

std::vector<int64_t> channels_last(size_t rank) {
  std::vector<int64_t> order = {0};
  for (size_t i = 2; i < rank; ++i) order.push_back(static_cast<int64_t>(i));
  order.push_back(1);
  return order;
}

// As the matrix, or the batch of them, that is multiplied.
Value* as_matrix(Emitter& emit, const PointConvolution& c, Value* images, const Int& channels) {
  if (c.layout == Layout::kChannelsFirst)
    return emit.reshape(images, {c.batch(), channels, c.points()});
  return emit.reshape(emit.permute(images, channels_last(c.y->sizes.size())),
                      {c.batch() * c.points(), channels});
}

// [outputs, inputs]
Value* weight_of(Emitter& emit, const PointConvolution& c) {
  return emit.reshape(c.weight, {c.outputs(), c.inputs()});
}

// Images with `channels`, of the points of y: [channels, inner] @ images.
Value* multiplied(Emitter& emit, const PointConvolution& c, Value* matrix, Value* images,
                  const Int& channels, const Int& inner) {
  Dims sizes = c.y->sizes;
  sizes[1] = channels;
  Value* factor = as_matrix(emit, c, images, inner);
  if (c.layout == Layout::kChannelsFirst) {
    Value* product = emit.raw(
        graph::op_of(OpKind::kbraze_bmm),
        {emit.expand(matrix, {c.batch(), channels, inner}), factor},
        graph::make_type(DType::kFloat32, {c.batch(), channels, c.points()}, c.x->type().device));
    return emit.reshape(product, sizes);
  }
  Dims last = {c.batch()};
  last.insert(last.end(), sizes.begin() + 2, sizes.end());
  last.push_back(channels);
  Value* product = emit(OpKind::kmm, {factor, emit.permute(matrix, {1, 0})});
  std::vector<int64_t> order = {0, static_cast<int64_t>(sizes.size()) - 1};
  for (size_t i = 2; i < sizes.size(); ++i) order.push_back(static_cast<int64_t>(i) - 1);
  return emit.permute(emit.reshape(product, last), order);
}

// Of few points in an image the product of all images takes the weight as it lies; as a factor of
// each image it would be turned each time.
Value* input_gradient(Emitter& emit, PointConvolution c, Value* dy) {
  if (c.points().hint() < kManyPoints) c.layout = Layout::kChannelsLast;
  Value* matrix = emit.permute(weight_of(emit, c), {1, 0});
  Value* dx = multiplied(emit, c, matrix, dy, c.inputs(), c.outputs());
  for (size_t i = 0; i < c.stride.size(); ++i) {
    if (c.stride[i] == Int(1)) continue;
    Dims sizes = dx->type().sizes;
    sizes[i + 2] = c.x->type().sizes[i + 2];
    dx = emit(OpKind::kslice_backward,
              {dx, sizes, Int(static_cast<int64_t>(i) + 2), Int(0), sizes[i + 2], c.stride[i]});
  }
  return dx;
}

Value* weight_gradient(Emitter& emit, const PointConvolution& c, Value* dy) {
  Value* x = as_matrix(emit, c, strided(emit, c), c.inputs());
  Value* gradients = as_matrix(emit, c, dy, c.outputs());
  const Dims sizes = {c.outputs(), c.inputs()};
  Value* product = nullptr;
  if (c.layout == Layout::kChannelsFirst)
    product =
        emit.raw(graph::op_of(OpKind::kbraze_bmm_sum), {gradients, emit.permute(x, {0, 2, 1})},
                 graph::make_type(DType::kFloat32, sizes, c.x->type().device));
  else
    product = emit(OpKind::kmm, {emit.permute(gradients, {1, 0}), x});
  return emit.reshape(product, c.weight->type().sizes);
}

// input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
Replacement forward(Emitter& emit, const Node& node) {
  const Value* result = node.result();
  PointConvolution c{.x = graph::tensor_arg(node, 0),
                     .weight = graph::tensor_arg(node, 1),
                     .stride = graph::dims_arg(node, 3),
                     .y = &result->type()};
  Value* bias = graph::optional_tensor_arg(node, 2);
  if (!is_of_points(node, 3, c) || (bias && !is_on_cpu(bias))) return {};
  c.layout = layout_of(result->type());
  if (c.layout == Layout::kOther || layout_of(c.x->type()) != c.layout || !pays(c)) return {};
  Value* y = multiplied(emit, c, weight_of(emit, c), strided(emit, c), c.outputs(), c.inputs());
  if (bias) {
    Dims sizes(c.y->sizes.size(), 1);
    sizes[1] = c.outputs();
    y = emit.add(y, emit.reshape(bias, sizes));
  }
  return {y};
}

// grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
// groups, output_mask
Replacement backward(Emitter& emit, const Node& node) {
  Value* dy = graph::tensor_arg(node, 0);
  PointConvolution c{.x = graph::tensor_arg(node, 1),
                     .weight = graph::tensor_arg(node, 2),
                     .stride = graph::dims_arg(node, 4),
                     .y = &dy->type()};
  if (!is_of_points(node, 4, c)) return {};
  c.layout = layout_of(c.x->type());
  if (c.layout == Layout::kOther || !pays(c)) return {};
  const bool wants[] = {is_used(emit, node, 0), is_used(emit, node, 1), is_used(emit, node, 2)};
  if (wants[0] && layout_of(node.results()[0]->type()) != c.layout) return {};
  if (wants[1] && !node.results()[1]->type().is_contiguous() &&
      layout_of(node.results()[1]->type()) != Layout::kChannelsLast)
    return {};
  Replacement gradients(3);
  if (wants[0]) gradients[0] = input_gradient(emit, c, dy);
  if (wants[1]) gradients[1] = weight_gradient(emit, c, dy);
  if (wants[2]) gradients[2] = bias_gradient(emit, dy);
  return gradients;
}

}  // namespace

bool multiply_convolutions(graph::Graph& graph) {
  bool changed = false;
  for (auto it = graph.nodes().begin(); it != graph.nodes().end();) {
    Node* node = (it++)->get();
    Emitter emit(graph, node);
    Replacement made;
    if (node->op().kind == OpKind::kconvolution) made = forward(emit, *node);
    if (&node->op() == &backward_op()) made = backward(emit, *node);
    if (made.empty()) continue;
    for (size_t i = 0; i < made.size(); ++i) {
      if (!made[i]) continue;
      const TensorType& wanted = node->results()[i]->type();
      Value* typed = with_type(emit, made[i], wanted);
      graph.replace_all_uses(node->results()[i], typed ? typed : made[i]);
    }
    graph.erase(node);
    changed = true;
  }
  return changed;
}

}  // namespace braze::passes
