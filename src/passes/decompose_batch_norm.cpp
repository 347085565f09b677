#include <algorithm>

#include "graph/arguments.h"
#include "graph/infer/strides.h"
#include "graph/op_kind.h"
#include "passes/decompose_rules.h"

// Batch norm is Braze's own kernels. On a GPU PyTorch's are one or three reads of the input more
// than what stands around them needs, and cuDNN's take single precision alone. On a CPU PyTorch's
// forward adds up in double precision, one element at a time, and takes three times as long.
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

bool is_on_gpu(const Value* value) {
  return value->type().device.type == graph::Device::Type::kCUDA;
}

// Whether the training of `input` is kernels, with these parameters and moments. On a CPU PyTorch
// computes with halves beside single precision in ways of its own, and refuses other mixtures.
bool has_kernels(const Node& node, const Value* input, std::initializer_list<int> beside) {
  const TensorType& type = input->type();
  if (type.rank() < 2) return false;
  if (is_on_gpu(input)) return graph::is_float(type.dtype);
  if (type.dtype != DType::kFloat32 && type.dtype != DType::kFloat64) return false;
  return std::all_of(beside.begin(), beside.end(), [&](int argument) {
    const Value* value = graph::optional_tensor_arg(node, argument);
    return !value || value->type().dtype == type.dtype;
  });
}

// [C] as [C, 1, 1, ...], to stand under [N, C, ...].
Value* per_channel(Emitter& emit, Value* value, int64_t rank) {
  Dims sizes(rank - 1, 1);
  sizes[0] = value->type().numel();
  return emit.reshape(value, std::move(sizes));
}

// All dimensions but the channels.
Dims without_channels(const TensorType& type) {
  Dims dims = {0};
  for (int64_t dim = 2; dim < type.rank(); ++dim) dims.push_back(dim);
  return dims;
}

// Points of a channel.
Int count_of(const TensorType& type) {
  Int count = 1;
  for (const Int& dim : without_channels(type)) count = count * type.sizes[dim.constant()];
  return count;
}

// A size as a factor of what is computed in `dtype`.
Argument factor(Emitter& emit, const Int& size, DType dtype, const Value* beside) {
  if (size.is_constant()) return static_cast<double>(size.constant());
  return emit.full(graph::make_type(dtype, {}, beside->type().device), size);
}

// x * alpha + beta with alpha = weight / sqrt(var + eps), beta = bias - mean * alpha.
Replacement inference(Emitter& emit, const Node& node, double eps) {
  Value* input = graph::tensor_arg(node, 0);
  Value* mean = graph::optional_tensor_arg(node, 3);
  Value* variance = graph::optional_tensor_arg(node, 4);
  const DType given = input->type().dtype;
  if (!mean || !variance || input->type().rank() < 2) return {};
  DType dtype = given;
  if (is_on_gpu(input) && graph::is_float(given))
    dtype = graph::compute_dtype(given);
  else if ((given != DType::kFloat32 && given != DType::kFloat64) || mean->type().dtype != given)
    return {};
  Value* weight = cast_optional(emit, graph::optional_tensor_arg(node, 1), dtype);
  Value* bias = cast_optional(emit, graph::optional_tensor_arg(node, 2), dtype);
  Value* rstd = emit.unary(OpKind::krsqrt, emit.add(emit.cast(variance, dtype), eps));
  Value* alpha = weight ? emit.mul(rstd, weight) : rstd;
  Value* shift = emit.mul(emit.cast(mean, dtype), alpha);
  Value* beta = bias ? emit.sub(bias, shift) : emit.unary(OpKind::kneg, shift);
  const int64_t rank = input->type().rank();
  Value* out = emit.add(emit.mul(emit.cast(input, dtype), per_channel(emit, alpha, rank)),
                        per_channel(emit, beta, rank));
  // At inference the saved statistics are empty on the CPU, and those that were given on a GPU.
  auto saved = [&](size_t i, auto value) -> Value* {
    if (!is_used(emit, node, i)) return nullptr;
    const TensorType& type = node.results()[i]->type();
    return type.numel() == Int(0) ? emit.full(type, 0.0) : value();
  };
  const auto copy_of_mean = [&] {
    return emit(OpKind::kclone, {mean, graph::MemoryFormat::kContiguous});
  };
  return {out, saved(1, copy_of_mean), saved(2, [&] { return rstd; })};
}

// (x - mean) / sqrt(var + eps) * weight + bias by the batch's own moments, and the running ones
// moved towards them, where there are any; the variance that they are given is unbiased.
Replacement training(Emitter& emit, const Node& node, bool has_running, double momentum,
                     double eps) {
  Value* input = graph::tensor_arg(node, 0);
  const TensorType& type = input->type();
  if (!(has_running ? has_kernels(node, input, {1, 2, 3, 4}) : has_kernels(node, input, {1, 2})))
    return {};
  const DType dtype = graph::compute_dtype(type.dtype);
  Value* x = emit.cast(input, dtype);
  Node* moments =
      emit.node(OpKind::kvar_mean_correction, {x, without_channels(type), Int(0), true});
  Value *variance = moments->result(0), *mean = moments->result(1);
  Value* rstd = emit.unary(OpKind::krsqrt, emit.add(variance, eps));
  Value* out = emit.mul(emit.sub(x, mean), rstd);
  const auto parameter = [&](int argument) -> Value* {
    Value* value = cast_optional(emit, graph::optional_tensor_arg(node, argument), dtype);
    return value ? per_channel(emit, value, type.rank()) : nullptr;
  };
  if (Value* weight = parameter(1)) out = emit.mul(out, weight);
  if (Value* bias = parameter(2)) out = emit.add(out, bias);
  const Int& channels = type.sizes[1];
  const auto by_channel = [&](Value* value) { return emit.reshape(value, {channels}); };
  Replacement replacement = {out, by_channel(mean), by_channel(rstd)};
  if (!has_running) return replacement;
  const auto moved = [&](int argument, Value* towards) {
    Value* running = emit.cast(graph::tensor_arg(node, argument), dtype);
    return emit.add(emit.mul(by_channel(towards), momentum), emit.mul(running, 1 - momentum));
  };
  const Int count = count_of(type);
  Value* unbiased = emit.div(emit.mul(variance, factor(emit, count, dtype, input)),
                             factor(emit, count - Int(1), dtype, input));
  replacement.push_back(moved(3, mean));
  replacement.push_back(moved(4, unbiased));
  return replacement;
}

// What a backward is given; the moments are those that the forward used.
struct Given {
  Value *dy, *input, *weight, *mean, *rstd;
  bool by_batch;  // the moments depend on the input
};

// With c = x - mean and sums over all but the channels:
//   dbias = sum(dy), dweight = sum(dy * c) * rstd,
//   dx = (dy - dbias / n - c * rstd^2 * sum(dy * c) / n) * rstd * weight
// and without the means of the gradient where the moments were not the batch's.
Replacement backward(Emitter& emit, const Node& node, const Given& given) {
  const TensorType& type = given.input->type();
  const DType dtype = graph::compute_dtype(type.dtype);
  const auto under = [&](Value* value) { return per_channel(emit, value, type.rank()); };
  const auto sum = [&](Value* value) {
    return emit(OpKind::ksum_dim_IntList, {value, without_channels(type), false, None{}});
  };
  Value* dy = emit.cast(given.dy, dtype);
  Value* rstd = emit.cast(given.rstd, dtype);
  Value* centred = emit.sub(emit.cast(given.input, dtype), under(emit.cast(given.mean, dtype)));
  Value* of_bias = sum(dy);
  Value* of_scale = sum(emit.mul(dy, centred));
  Value* scale = rstd;
  if (given.weight) scale = emit.mul(rstd, emit.cast(given.weight, dtype));
  Value* dx = dy;
  if (given.by_batch) {
    const Argument count = factor(emit, count_of(type), dtype, given.input);
    Value* slope = emit.div(emit.mul(of_scale, emit.mul(rstd, rstd)), count);
    dx = emit.sub(emit.sub(dx, under(emit.div(of_bias, count))), emit.mul(centred, under(slope)));
  }
  return {is_used(emit, node, 0) ? emit.mul(dx, under(scale)) : nullptr,
          is_used(emit, node, 1) ? emit.mul(of_scale, rstd) : nullptr, of_bias};
}

// grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, mask
Replacement native_backward(Emitter& emit, const Node& node) {
  Given given{.dy = graph::tensor_arg(node, 0),
              .input = graph::tensor_arg(node, 1),
              .weight = graph::optional_tensor_arg(node, 2),
              .mean = graph::optional_tensor_arg(node, 5),
              .rstd = graph::optional_tensor_arg(node, 6),
              .by_batch = graph::bool_arg(node, 7)};
  const TensorType& type = given.input->type();
  if (!has_kernels(node, given.input, {0, 2, 3, 4, 5, 6}) || given.dy->type().sizes != type.sizes)
    return {};
  if (!given.by_batch) {
    given.mean = graph::optional_tensor_arg(node, 3);
    Value* variance = graph::optional_tensor_arg(node, 4);
    if (!given.mean || !variance) return {};
    variance = emit.cast(variance, graph::compute_dtype(type.dtype));
    given.rstd = emit.unary(OpKind::krsqrt, emit.add(variance, graph::double_arg(node, 8)));
  }
  if (!given.mean || !given.rstd) return {};
  return backward(emit, node, given);
}

// input, grad_out, weight, running_mean, running_var, save_mean, save_invstd, eps, reserve
Replacement cudnn_backward(Emitter& emit, const Node& node) {
  return backward(emit, node,
                  {.dy = graph::tensor_arg(node, 1),
                   .input = graph::tensor_arg(node, 0),
                   .weight = graph::tensor_arg(node, 2),
                   .mean = graph::tensor_arg(node, 5),
                   .rstd = graph::tensor_arg(node, 6),
                   .by_batch = true});
}

Value* reserve(Emitter& emit, const Node& node) {
  return emit.full(node.results()[3]->type(), Int(0));
}

}  // namespace

Replacement decompose_batch_norm(Emitter& emit, const Node& node) {
  switch (node.op().kind) {
    case OpKind::knative_batch_norm:
    case OpKind::k_native_batch_norm_legit:
      if (graph::bool_arg(node, 5)) return {};
      return inference(emit, node, graph::double_arg(node, 7));
    case OpKind::k_native_batch_norm_legit_no_training:
      return inference(emit, node, graph::double_arg(node, 6));
    case OpKind::k_native_batch_norm_legit_functional:
      if (!graph::bool_arg(node, 5)) return {};
      return training(emit, node, true, graph::double_arg(node, 6), graph::double_arg(node, 7));
    case OpKind::k_native_batch_norm_legit_no_stats:
      if (!graph::bool_arg(node, 3)) return {};
      return training(emit, node, false, 0, graph::double_arg(node, 5));
    case OpKind::kcudnn_batch_norm: {
      Replacement made = graph::bool_arg(node, 5)
                             ? training(emit, node, false, 0, graph::double_arg(node, 7))
                             : inference(emit, node, graph::double_arg(node, 7));
      // What its own backward would be given.
      if (!made.empty()) made.push_back(is_used(emit, node, 3) ? reserve(emit, node) : nullptr);
      return made;
    }
    case OpKind::knative_batch_norm_backward:
      return native_backward(emit, node);
    case OpKind::kcudnn_batch_norm_backward:
      return cudnn_backward(emit, node);
    default:
      return {};
  }
}

}  // namespace braze::passes
