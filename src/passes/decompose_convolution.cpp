#include <algorithm>

#include "graph/arguments.h"
#include "graph/infer/strides.h"
#include "graph/op_kind.h"
#include "passes/decompose_rules.h"

// The gradient of a depthwise convolution's weight. PyTorch's kernels on a CPU have none that fits:
// oneDNN's takes ten times as long as its gradient of the input, more for larger windows. As a sum
// over the windows of the input it is one kernel, whose vectors lie along a row or along channels.
namespace braze::passes {

using graph::Argument;
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

// Points of a window from which on the sum is the faster of the two, whatever the stride.
constexpr int64_t kLargeWindow = 25;

// grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
// groups, output_mask
struct Backward {
  Value *dy, *input, *weight;
  Dims stride, padding;
};

bool all_are(const Dims& list, int64_t value) {
  return std::all_of(list.begin(), list.end(), [&](const Int& each) { return each == value; });
}

bool is_depthwise(const Node& node, const Backward& backward) {
  const TensorType& type = backward.input->type();
  const TensorType& weight = backward.weight->type();
  const TensorType& dy = backward.dy->type();
  if (type.device.type != graph::Device::Type::kCPU || type.dtype != DType::kFloat32 ||
      dy.dtype != type.dtype || type.rank() != 4 || weight.rank() != 4 || dy.rank() != 4)
    return false;
  const Int channels = graph::sym_arg(node, 9);
  return !graph::bool_arg(node, 7) && type.sizes[1] == channels && dy.sizes[1] == channels &&
         weight.sizes[0] == channels && weight.sizes[1] == Int(1) &&
         all_are(graph::dims_arg(node, 6), 1) && backward.stride.size() == 2 &&
         backward.padding.size() == 2;
}

// Whether sizes are numbers for which the sum is the faster of the two.
bool pays(const Backward& backward) {
  const Dims& sizes = backward.input->type().sizes;
  const Dims& window = backward.weight->type().sizes;
  for (const Int* size : {&sizes[2], &sizes[3], &window[2], &window[3]})
    if (!size->is_constant()) return false;
  return window[2].constant() * window[3].constant() >= kLargeWindow;
}

// Strides of dimensions of one element count, too.
Value* row_major(Emitter& emit, Value* x) {
  if (x->type().strides == graph::make_type(x->type().dtype, x->type().sizes).strides) return x;
  return emit(OpKind::kclone, {x, MemoryFormat::kContiguous});
}

// The images with a border of zeros, in the order that they lie in.
Value* padded(Emitter& emit, Value* x, const Dims& padding) {
  if (all_are(padding, 0)) return x;
  const Int &high = padding[0], &wide = padding[1];
  const auto with_zeros = [&](Value* images, Dims border) {
    return emit(OpKind::kconstant_pad_nd, {row_major(emit, images), std::move(border), Int(0)});
  };
  if (x->type().is_contiguous()) return with_zeros(x, {wide, wide, high, high});
  Value* last = with_zeros(emit.permute(x, {0, 2, 3, 1}), {0, 0, wide, wide, high, high});
  return emit.permute(last, {0, 3, 1, 2});
}

// dweight[c, 0, i, j] = sum over n, y, x of dy[n, c, y, x] * input[n, c, y * s + i, x * s + j], the
// input padded with zeros.
Value* weight_gradient(Emitter& emit, const Backward& backward) {
  Value *x = padded(emit, backward.input, backward.padding), *dy = backward.dy;
  const Dims& window = backward.weight->type().sizes;
  for (int64_t dim : {2, 3})
    x = emit(OpKind::kunfold, {x, Int(dim), window[dim], backward.stride[dim - 2]});
  for (int i = 0; i < 2; ++i) dy = emit(OpKind::kunsqueeze, {dy, Int(-1)});
  Value* sum = emit(OpKind::ksum_dim_IntList, {emit.mul(x, dy), Dims{0, 2, 3}, false, None{}});
  return emit(OpKind::kunsqueeze, {sum, Int(1)});
}

// PyTorch's gradient of the input alone.
Value* input_gradient(Emitter& emit, const Node& node) {
  std::vector<Argument> args = node.args();
  args[10] = std::vector<bool>{true, false, false};
  std::vector<TensorType> types(node.results().size(), node.results()[0]->type());
  Node* made = emit.graph().add_node(node.op(), std::move(args), std::move(types), node.origin(),
                                     emit.before());
  for (int i : {1, 2}) emit.graph().set_result_undefined(made, i);
  return made->result(0);
}

Replacement convolution_backward(Emitter& emit, const Node& node) {
  if (!is_used(emit, node, 1)) return {};
  const Backward backward{.dy = graph::tensor_arg(node, 0),
                          .input = graph::tensor_arg(node, 1),
                          .weight = graph::tensor_arg(node, 2),
                          .stride = graph::dims_arg(node, 4),
                          .padding = graph::dims_arg(node, 5)};
  if (!is_depthwise(node, backward) || !pays(backward)) return {};
  Value* of_bias = nullptr;
  if (is_used(emit, node, 2))
    of_bias = emit(OpKind::ksum_dim_IntList, {backward.dy, Dims{0, 2, 3}, false, None{}});
  return {is_used(emit, node, 0) ? input_gradient(emit, node) : nullptr,
          weight_gradient(emit, backward), of_bias};
}

}  // namespace

Replacement decompose_convolution(Emitter& emit, const Node& node) {
  static const graph::Op& backward = graph::find_or_add_op("aten.convolution_backward");
  return &node.op() == &backward ? convolution_backward(emit, node) : Replacement{};
}

}  // namespace braze::passes
