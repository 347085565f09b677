#include <limits>

#include "graph/arguments.h"
#include "graph/infer/strides.h"
#include "graph/op_kind.h"
#include "passes/decompose_rules.h"
#include "sym/facts.h"

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

// grad_out, input, mean, rstd, weight, batch, channels, area, groups, which are wanted. With
// sums over the pixels of each channel, db = sum(dy) and ds = sum(dy * x), and db_g, ds_g, those of
// a group's channels times their weights:
//   b = (db_g * mean - ds_g) * rstd^3 / count, c = -b * mean - db_g * rstd / count
//   dx = dy * rstd * weight + b * x + c
//   dweight = sum((ds - db * mean) * rstd), dbias = sum(db) over the batch
// so that what is large is read twice.
Replacement group_norm_backward(Emitter& emit, const Node& node) {
  Value* input = graph::tensor_arg(node, 1);
  const TensorType& type = input->type();
  if (!is_float(type.dtype) || type.rank() < 2 || !is_plain(type) ||
      graph::tensor_arg(node, 0)->type().dtype != type.dtype)
    return {};
  const DType dtype = graph::compute_dtype(type.dtype);
  const Int batch = graph::sym_arg(node, 5), channels = graph::sym_arg(node, 6);
  const Int area = graph::sym_arg(node, 7), groups = graph::sym_arg(node, 8);
  const Int group_channels = sym::floordiv(channels, groups), count = group_channels * area;
  if (!sym::known_positive(count)) return {};
  const auto as = [&](int argument, Dims sizes) {
    return emit.reshape(emit.cast(graph::tensor_arg(node, argument), dtype), std::move(sizes));
  };
  const auto sum = [&](Value* value, int64_t dim, bool keep) {
    return emit(OpKind::ksum_dim_IntList, {value, Dims{Int(dim)}, keep, None{}});
  };
  const auto share = [&](Value* value) {
    if (count.is_constant()) return emit.mul(value, 1.0 / static_cast<double>(count.constant()));
    return emit.div(value, count);
  };
  const auto by_pixel = [&](Value* value) { return emit(OpKind::kunsqueeze, {value, Int(-1)}); };
  const Dims by_channel = {batch, groups, group_channels, area};
  Value *dy = as(0, by_channel), *x = as(1, by_channel);
  Value *mean = as(2, {batch, groups, Int(1)}), *rstd = as(3, {batch, groups, Int(1)});
  Value *db = sum(dy, 3, false), *ds = sum(emit.mul(dy, x), 3, false);
  Replacement results(3);
  if (is_used(emit, node, 0)) {
    Value* weight = nullptr;
    if (graph::optional_tensor_arg(node, 4)) weight = as(4, {Int(1), groups, group_channels});
    const auto weighted = [&](Value* value) { return weight ? emit.mul(value, weight) : value; };
    Value *db_group = sum(weighted(db), 2, true), *ds_group = sum(weighted(ds), 2, true);
    Value* cube = emit.mul(emit.mul(rstd, rstd), rstd);
    Value* b = share(emit.mul(emit.sub(emit.mul(db_group, mean), ds_group), cube));
    Value* c =
        emit.sub(emit.unary(OpKind::kneg, emit.mul(b, mean)), share(emit.mul(db_group, rstd)));
    Value* dx = emit.add(emit.mul(dy, by_pixel(weighted(rstd))), emit.mul(x, by_pixel(b)));
    results[0] = emit.reshape(emit.add(dx, by_pixel(c)), type.sizes);
  }
  const auto over_batch = [&](Value* value) {
    return emit.reshape(sum(value, 0, false), {channels});
  };
  if (is_used(emit, node, 1))
    results[1] = over_batch(emit.mul(emit.sub(ds, emit.mul(db, mean)), rstd));
  if (is_used(emit, node, 2)) results[2] = over_batch(db);
  return results;
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

// dy, x, normalised sizes, rstd, weight, which are wanted. With n elements of a row and y = x *
// rstd:
//   dx = rstd * (dy * weight - y * sum(dy * weight * y) / n), dweight = sum(dy * y) over the rows
// No value of the size of x is used twice, as in a layer norm's.
Replacement rms_norm_backward(Emitter& emit, const Node& node) {
  const graph::TensorType& type = graph::tensor_arg(node, 1)->type();
  const Value* weight = graph::optional_tensor_arg(node, 4);
  const Dims normalized = graph::dims_arg(node, 2);
  const Int size = sym::product(normalized);
  if (!graph::is_float(type.dtype) || graph::tensor_arg(node, 0)->type().dtype != type.dtype ||
      (weight && weight->type().dtype != type.dtype) || !sym::known_positive(size))
    return {};
  Dims rows, batch;
  const int64_t first = type.rank() - static_cast<int64_t>(normalized.size());
  for (int64_t i = 0; i < type.rank(); ++i) (i < first ? batch : rows).push_back(Int(i));
  if (rows.empty()) return {};
  const DType dtype = graph::compute_dtype(type.dtype);
  const auto operand = [&](int i) { return emit.cast(graph::tensor_arg(node, i), dtype); };
  const auto sum = [&](Value* value, const Dims& dims, bool keep) {
    return emit(OpKind::ksum_dim_IntList, {value, dims, keep, None{}});
  };
  Value *dy = operand(0), *x = operand(1);
  Dims row_sizes = type.sizes;
  for (const Int& dim : rows) row_sizes[dim.constant()] = Int(1);
  Value* rstd = emit.reshape(operand(3), row_sizes);
  Replacement results(2);
  if (is_used(emit, node, 0)) {
    const auto weighted = [&](Value* v) { return weight ? emit.mul(v, operand(4)) : v; };
    Value* product = sum(weighted(emit.mul(dy, x)), rows, true);
    Value* share = size.is_constant()
                       ? emit.mul(product, 1.0 / static_cast<double>(size.constant()))
                       : emit.div(product, size);
    Value* factor = emit.mul(share, emit.mul(emit.mul(rstd, rstd), rstd));
    Value* scaled = weighted(emit.mul(dy, rstd));
    results[0] = emit.sub(scaled, emit.mul(x, factor));
  }
  if (weight && is_used(emit, node, 1)) {
    results[1] = emit.mul(dy, emit.mul(x, rstd));
    if (!batch.empty()) results[1] = sum(results[1], batch, false);
  }
  return results;
}

}  // namespace

Replacement decompose_norm(Emitter& emit, const Node& node) {
  switch (node.op().kind) {
    case OpKind::knative_layer_norm:
      return layer_norm(emit, node);
    case OpKind::knative_group_norm:
      return group_norm(emit, node);
    case OpKind::knative_group_norm_backward:
      return group_norm_backward(emit, node);
    case OpKind::k_fused_rms_norm:
    case OpKind::krms_norm:
      return rms_norm(emit, node);
    case OpKind::k_fused_rms_norm_backward:
      return rms_norm_backward(emit, node);
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
