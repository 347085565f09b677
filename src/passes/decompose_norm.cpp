#include <limits>

#include "graph/arguments.h"
#include "graph/infer/strides.h"
#include "graph/op_kind.h"
#include "passes/decompose_rules.h"

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

struct Moments {
  Value* mean;
  Value* reciprocal_deviation;  // 1 / sqrt(variance + eps)
};

// Mean and deviation over `dims`, which are kept with size 1. The variance is biased, by Welford's
// method.
Moments moments(Emitter& emit, Value* x, Dims dims, double eps) {
  Node* node = emit.node(OpKind::kvar_mean_correction, {x, std::move(dims), Int(0), true});
  Value* shifted = emit.add(node->result(0), eps);
  return {node->result(1), emit.unary(OpKind::krsqrt, shifted)};
}

Value* affine(Emitter& emit, Value* x, Value* weight, Value* bias) {
  if (weight) x = emit.mul(x, weight);
  if (bias) x = emit.add(x, bias);
  return x;
}

// (x - mean) * rstd * weight + bias over the last dimensions.
Replacement layer_norm(Emitter& emit, const Node& node) {
  Value* input = graph::tensor_arg(node, 0);
  if (!is_float(input->type().dtype)) return {};
  const DType dtype = graph::compute_dtype(input->type().dtype);
  Value* x = emit.cast(input, dtype);
  const auto normalized = static_cast<int64_t>(graph::dims_arg(node, 1).size());
  Dims dims;
  for (int64_t i = x->type().rank() - normalized; i < x->type().rank(); ++i) dims.push_back(i);
  const auto [mean, rstd] = moments(emit, x, std::move(dims), graph::double_arg(node, 4));
  Value* normal = emit.mul(emit.sub(x, mean), rstd);
  Value* out = affine(emit, normal, cast_optional(emit, graph::optional_tensor_arg(node, 2), dtype),
                      cast_optional(emit, graph::optional_tensor_arg(node, 3), dtype));
  return {out, mean, rstd};
}

// Whether the layout is one that eager's group norm takes.
bool is_plain(const TensorType& type) {
  return type.is_contiguous() ||
         (type.rank() == 4 &&
          graph::like_strides(type, MemoryFormat::kChannelsLast) == type.strides);
}

// x * scale + shift with scale = rstd * weight, shift = bias - mean * scale, by group.
Replacement group_norm(Emitter& emit, const Node& node) {
  Value* input = graph::tensor_arg(node, 0);
  if (!is_float(input->type().dtype) || input->type().rank() < 2 || !is_plain(input->type()))
    return {};
  const DType dtype = graph::compute_dtype(input->type().dtype);
  const Int batch = graph::sym_arg(node, 3), channels = graph::sym_arg(node, 4);
  const Int area = graph::sym_arg(node, 5), groups = graph::sym_arg(node, 6);
  const Int group_channels = sym::floordiv(channels, groups);
  Value* x = emit.cast(input, dtype);
  const double eps = graph::double_arg(node, 7);
  const Dims by_group_and_channel = {batch, groups, group_channels, area};
  // On a GPU a group with channels innermost is added up where it lies. On a CPU rows, which are
  // gathered for that, make longer vectors than the channels of a group do.
  const bool in_rows = x->type().is_contiguous() ||
                       x->type().device.type == graph::Device::Type::kCPU ||
                       !graph::view_strides(x->type(), by_group_and_channel);
  Value* split = in_rows ? emit.reshape(emit.contiguous(x), {batch, groups, group_channels * area})
                         : emit.reshape(x, by_group_and_channel);
  auto [mean, rstd] = in_rows
                          ? moments(emit, split, {Int(2)}, eps)
                          : moments(emit, emit.permute(split, {0, 1, 3, 2}), {Int(2), Int(3)}, eps);
  mean = emit.reshape(mean, {batch, groups, Int(1)});
  rstd = emit.reshape(rstd, {batch, groups, Int(1)});
  split = emit.reshape(split, by_group_and_channel);
  auto by_group = [&](Value* parameter) {
    return emit.reshape(emit.cast(parameter, dtype), {Int(1), groups, group_channels});
  };
  Value* weight = graph::optional_tensor_arg(node, 1);
  Value* bias = graph::optional_tensor_arg(node, 2);
  Value* scale = weight ? emit.mul(rstd, by_group(weight)) : rstd;
  Value* shift = emit.unary(OpKind::kneg, emit.mul(mean, scale));
  if (bias) shift = emit.add(shift, by_group(bias));
  // [N, G, C/G] or [N, G, 1] under [N, G, C/G, area].
  auto by_channel = [&](Value* value) { return emit(OpKind::kunsqueeze, {value, Int(-1)}); };
  Value* out = emit.add(emit.mul(split, by_channel(scale)), by_channel(shift));
  auto statistic = [&](Value* value) { return emit.reshape(value, {batch, groups}); };
  return {emit.reshape(out, input->type().sizes),
          is_used(emit, node, 1) ? statistic(mean) : nullptr,
          is_used(emit, node, 2) ? statistic(rstd) : nullptr};
}

// x * rsqrt(mean(x * x) + eps) * weight over the last dimensions; the second result is the factor.
Replacement rms_norm(Emitter& emit, const Node& node) {
  Value* input = graph::tensor_arg(node, 0);
  const bool real =
      input->type().dtype == DType::kFloat32 || input->type().dtype == DType::kFloat64;
  if (!real) return {};  // where f16 is rounded differs between versions of PyTorch
  const double smallest = input->type().dtype == DType::kFloat64
                              ? std::numeric_limits<double>::epsilon()
                              : std::numeric_limits<float>::epsilon();
  const double eps = graph::double_arg_or(node, 3, smallest);
  const auto normalized = static_cast<int64_t>(graph::dims_arg(node, 1).size());
  Dims dims;
  for (int64_t i = input->type().rank() - normalized; i < input->type().rank(); ++i)
    dims.push_back(i);
  Value* mean = emit(OpKind::kmean_dim, {emit.mul(input, input), dims, true, None{}});
  Value* factor = emit.unary(OpKind::krsqrt, emit.add(mean, eps));
  Value* out = emit.mul(input, factor);
  if (Value* weight = graph::optional_tensor_arg(node, 2)) out = emit.mul(out, weight);
  if (node.results().size() == 1) return {out};
  return {out, factor};
}

}  // namespace

Replacement decompose_norm(Emitter& emit, const Node& node) {
  switch (node.op().kind) {
    case OpKind::knative_layer_norm:
      return layer_norm(emit, node);
    case OpKind::knative_group_norm:
      return group_norm(emit, node);
    case OpKind::k_fused_rms_norm:
    case OpKind::krms_norm:
      return rms_norm(emit, node);
    case OpKind::kstd_correction: {
      std::vector<Argument> args = node.args();
      Value* x = graph::tensor_arg(node, 0);
      if (!is_float(x->type().dtype)) return {};
      args[0] = in_compute_dtype(emit, x);
      return {emit.unary(OpKind::ksqrt, emit(OpKind::kvar_correction, std::move(args)))};
    }
    default:
      return {};
  }
}

}  // namespace braze::passes
