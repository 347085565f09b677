#include <algorithm>

#include "graph/arguments.h"
#include "graph/infer/strides.h"
#include "graph/op_kind.h"
#include "passes/decompose_rules.h"

// The gradient of a depthwise convolution's weight. PyTorch's kernels on a CPU have none that fits:
// oneDNN's takes ten times as long as its gradient of the input, more for larger windows. As a sum
// over the windows of the input it is one kernel, whose vectors lie along a row or along channels.
//
// On a GPU the bias, apart from its convolution. cuDNN's convolutions have none: PyTorch reads and
// writes the result once more to add it, where a kernel that reads the result can add it as it
// goes. The bias's gradient is a sum of its own there, too.
namespace braze::passes {

using graph::Argument;
using graph::DType;
using graph::Emitter;
using graph::MemoryFormat;
using graph::Node;
using graph::None;
using graph::OpClass;
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

// PyTorch's gradients of the input and of the weight, those of them that are wanted.
Replacement own_gradients(Emitter& emit, const Node& node, std::vector<bool> wanted) {
  std::vector<Argument> args = node.args();
  wanted.resize(3);
  args[10] = wanted;
  std::vector<TensorType> types;
  for (const size_t i : {0, 1, 2})
    types.push_back(node.results()[wanted[i] ? i : (wanted[0] ? 0 : 1)]->type());
  Node* made = emit.graph().add_node(node.op(), std::move(args), std::move(types), node.origin(),
                                     emit.before());
  for (int i = 0; i < 3; ++i)
    if (!wanted[i]) emit.graph().set_result_undefined(made, i);
  return made->results();
}

Replacement depthwise_backward(Emitter& emit, const Node& node) {
  if (!is_used(emit, node, 1)) return {};
  const Backward backward{.dy = graph::tensor_arg(node, 0),
                          .input = graph::tensor_arg(node, 1),
                          .weight = graph::tensor_arg(node, 2),
                          .stride = graph::dims_arg(node, 4),
                          .padding = graph::dims_arg(node, 5)};
  if (!is_depthwise(node, backward) || !pays(backward)) return {};
  Value* of_bias = is_used(emit, node, 2) ? bias_gradient(emit, backward.dy) : nullptr;
  Value* of_input = is_used(emit, node, 0) ? own_gradients(emit, node, {true, false})[0] : nullptr;
  return {of_input, weight_gradient(emit, backward), of_bias};
}

// Whether windows lie side by side and cover the images.
bool is_of_patches(const Node& node, const Backward& backward) {
  const TensorType &x = backward.input->type(), &dy = backward.dy->type();
  const TensorType& weight = backward.weight->type();
  for (const TensorType* type : {&x, &dy, &weight})
    if (type->device.type != graph::Device::Type::kCPU || type->dtype != DType::kFloat32 ||
        type->rank() != 4)
      return false;
  if (graph::bool_arg(node, 7) || graph::sym_arg(node, 9) != Int(1) ||
      !all_are(backward.padding, 0) || !all_are(graph::dims_arg(node, 6), 1) ||
      backward.stride.size() != 2)
    return false;
  for (int i = 0; i < 2; ++i) {
    const Int& window = weight.sizes[2 + i];
    if (backward.stride[i] != window || dy.sizes[2 + i] * window != x.sizes[2 + i]) return false;
  }
  return weight.sizes[2] * weight.sizes[3] != Int(1);
}

// dweight[o, c * i * j] = sum over n, y, x of dy[n, o, y, x] * input[n, c, y * s + i, x * s + j]
Replacement patches_backward(Emitter& emit, const Node& node) {
  if (!is_used(emit, node, 1) || is_used(emit, node, 0)) return {};
  const Backward backward{.dy = graph::tensor_arg(node, 0),
                          .input = graph::tensor_arg(node, 1),
                          .weight = graph::tensor_arg(node, 2),
                          .stride = graph::dims_arg(node, 4),
                          .padding = graph::dims_arg(node, 5)};
  if (!is_of_patches(node, backward)) return {};
  const Dims &of_dy = backward.dy->type().sizes, &of_weight = backward.weight->type().sizes;
  const Int rows = of_dy[0] * of_dy[2] * of_dy[3];
  Value* windows = emit.reshape(
      backward.input, {of_dy[0], of_weight[1], of_dy[2], of_weight[2], of_dy[3], of_weight[3]});
  windows = emit.reshape(emit.permute(windows, {0, 2, 4, 1, 3, 5}),
                         {rows, of_weight[1] * of_weight[2] * of_weight[3]});
  Value* gradients = emit.reshape(emit.permute(backward.dy, {0, 2, 3, 1}), {rows, of_dy[1]});
  Value* product = emit(OpKind::kmm, {emit.permute(gradients, {1, 0}), windows});
  return {nullptr, emit.reshape(product, of_weight),
          is_used(emit, node, 2) ? bias_gradient(emit, backward.dy) : nullptr};
}

// Whether these are tensors of float32 or of halves on a GPU, the first a batch of channels.
bool are_on_gpu(std::initializer_list<const Value*> values) {
  const TensorType& first = (*values.begin())->type();
  return first.device.type == graph::Device::Type::kCUDA && first.rank() >= 3 &&
         (first.dtype == DType::kFloat32 || graph::is_half(first.dtype)) &&
         std::ranges::all_of(values, [&](const Value* value) {
           return value->type().dtype == first.dtype && value->type().device == first.device;
         });
}

// PyTorch's own kernels of depthwise convolutions take a bias along. cuDNN's, for channels last,
// do not.
bool takes_bias_along(const Node& node) {
  const TensorType& weight = graph::tensor_arg(node, 1)->type();
  return !graph::bool_arg(node, 6) && graph::sym_arg(node, 8) != Int(1) &&
         weight.sizes[1] == Int(1) && node.result()->type().is_contiguous();
}

// Whether a kernel of Braze's may read the value.
bool is_read_by_kernels(const Value* value) {
  return std::ranges::any_of(value->users(), [](const Node* user) {
    return user->op().op_class != OpClass::kExtern && user->op().op_class != OpClass::kUnknown;
  });
}

// input, weight, bias, stride, padding, dilation, transposed, output_padding, groups. Halves are
// rounded before the bias is added, as PyTorch's are.
Replacement convolution(Emitter& emit, const Node& node) {
  Value* bias = graph::optional_tensor_arg(node, 2);
  Value* result = node.result();
  if (!bias || bias->type().rank() != 1 ||
      !are_on_gpu({result, graph::tensor_arg(node, 0), graph::tensor_arg(node, 1), bias}) ||
      takes_bias_along(node) || !is_read_by_kernels(result))
    return {};
  std::vector<Argument> args = node.args();
  args[2] = None{};
  Value* product = emit.raw(node.op(), std::move(args), result->type());
  Dims sizes(result->type().rank(), 1);
  sizes[1] = bias->type().sizes[0];
  return {emit.add(product, emit.reshape(bias, std::move(sizes)))};
}

// PyTorch sums as it does for any tensor, in a kernel that nothing else is fused with.
Replacement gradients_on_gpu(Emitter& emit, const Node& node) {
  const auto& wanted = std::get<std::vector<bool>>(node.args().at(10));
  if (!wanted[2] || !are_on_gpu({graph::tensor_arg(node, 0), graph::tensor_arg(node, 1),
                                 graph::tensor_arg(node, 2)}))
    return {};
  Replacement results(3);
  const std::vector<bool> own = {is_used(emit, node, 0), is_used(emit, node, 1)};
  if (own[0] || own[1]) results = own_gradients(emit, node, own);
  if (is_used(emit, node, 2)) results[2] = bias_gradient(emit, graph::tensor_arg(node, 0));
  return results;
}

}  // namespace

Value* bias_gradient(Emitter& emit, Value* dy) {
  Dims others = {0};
  for (int64_t dim = 2; dim < dy->type().rank(); ++dim) others.push_back(dim);
  return emit(OpKind::ksum_dim_IntList, {dy, std::move(others), false, None{}});
}

Replacement decompose_convolution(Emitter& emit, const Node& node) {
  static const graph::Op& backward = graph::find_or_add_op("aten.convolution_backward");
  if (node.op().kind == OpKind::kconvolution) return convolution(emit, node);
  if (&node.op() != &backward) return {};
  Replacement gradients = depthwise_backward(emit, node);
  if (gradients.empty()) gradients = patches_backward(emit, node);
  return gradients.empty() ? gradients_on_gpu(emit, node) : gradients;
}

}  // namespace braze::passes
