#include <cmath>
#include <numbers>

#include "graph/arguments.h"
#include "graph/infer/promotion.h"
#include "graph/infer/strides.h"
#include "graph/op_kind.h"
#include "passes/decompose_rules.h"

namespace braze::passes {

using graph::Argument;
using graph::DType;
using graph::Emitter;
using graph::Node;
using graph::OpKind;
using graph::Value;
using sym::Int;

namespace {

Value* compare(Emitter& emit, OpKind kind, Value* x, Argument y) {
  return emit(kind, {x, std::move(y)});
}

// Whether the number is one of the integers of this dtype.
bool holds(DType dtype, const Argument& number) {
  auto* integer = std::get_if<Int>(&number);
  if (!integer || !integer->is_constant() || !graph::is_integral(dtype, false)) return false;
  if (dtype == DType::kInt64) return true;
  const auto bits = static_cast<int64_t>(8 * graph::size_of(dtype));
  const int64_t low = dtype == DType::kUInt8 ? 0 : -(int64_t{1} << (bits - 1));
  return integer->constant() >= low && integer->constant() < low + (int64_t{1} << bits);
}

// x * min(max(x + 3, 0), 6) / 6, as eager groups it.
Value* relu6_of_shifted(Emitter& emit, Value* x) {
  return emit(OpKind::kclamp, {emit.add(x, 3.0), 0.0, 6.0});
}

// approximate="none": (x * 0.5) * (1 + erf(x / sqrt(2)))
Value* gelu_erf(Emitter& emit, Value* x) {
  Value* erf = emit.unary(OpKind::kerf, emit.mul(x, std::numbers::sqrt2 / 2));
  return emit.mul(emit.mul(x, 0.5), emit.add(erf, 1.0));
}

// approximate="tanh": (0.5 * x) * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))
Value* gelu_tanh(Emitter& emit, Value* x) {
  const double beta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  Value* cube = emit.mul(emit.mul(x, x), x);
  Value* inner = emit.mul(emit.add(x, emit.mul(cube, 0.044715)), beta);
  return emit.mul(emit.mul(x, 0.5), emit.add(emit.unary(OpKind::ktanh, inner), 1.0));
}

// x < 0 ? expm1(x * input_scale) * (alpha * scale) : x * scale
Value* elu(Emitter& emit, const Node& node, Value* x) {
  const double alpha = graph::double_arg_or(node, 1, 1), scale = graph::double_arg_or(node, 2, 1);
  Value* scaled = emit.mul(x, graph::double_arg_or(node, 3, 1));
  Value* negative = emit.mul(emit.unary(OpKind::kexpm1, scaled), alpha * scale);
  return emit.where(compare(emit, OpKind::klt_Scalar, x, 0.0), negative, emit.mul(x, scale));
}

// beta * x > threshold ? x : log1p(exp(beta * x)) / beta
Value* softplus(Emitter& emit, const Node& node, Value* x) {
  const double beta = graph::double_arg_or(node, 1, 1);
  Value* scaled = emit.mul(x, beta);
  Value* soft = emit.unary(OpKind::klog1p, emit.unary(OpKind::kexp, scaled));
  return emit.where(compare(emit, OpKind::kgt_Scalar, scaled, graph::double_arg_or(node, 2, 20)), x,
                    emit.div(soft, beta));
}

Value* activation(Emitter& emit, const Node& node, Value* x) {
  switch (node.op().kind) {
    case OpKind::ksilu:  // x / (1 + exp(-x))
      return emit.div(x, emit.add(emit.unary(OpKind::kexp, emit.unary(OpKind::kneg, x)), 1.0));
    case OpKind::kgelu:
      return graph::string_arg_or(node, 1, "none") == "tanh" ? gelu_tanh(emit, x)
                                                             : gelu_erf(emit, x);
    case OpKind::khardswish:
      return emit.div(emit.mul(x, relu6_of_shifted(emit, x)), 6.0);
    case OpKind::khardsigmoid:
      return emit.div(relu6_of_shifted(emit, x), 6.0);
    case OpKind::kleaky_relu:
      return emit.where(compare(emit, OpKind::kgt_Scalar, x, 0.0), x,
                        emit.mul(x, graph::double_arg_or(node, 1, 0.01)));
    case OpKind::kelu:
      return elu(emit, node, x);
    case OpKind::ksoftplus:
      return softplus(emit, node, x);
    case OpKind::kmish:  // x * tanh(log1p(exp(x)))
      return emit.mul(
          x, emit.unary(OpKind::ktanh, emit.unary(OpKind::klog1p, emit.unary(OpKind::kexp, x))));
    default:
      return nullptr;
  }
}

// min(x, 0) - log1p(exp(-|x|)); the second result is a work space of backward.
Replacement log_sigmoid(Emitter& emit, const Node& node) {
  if (node.results().size() > 1 && node.results()[1] && emit.graph().has_uses(node.results()[1]))
    return {};
  Value* x = graph::tensor_arg(node, 0);
  if (!is_float(x->type().dtype)) return {};
  x = in_compute_dtype(emit, x);
  Value* decay = emit.unary(OpKind::kexp, emit.unary(OpKind::kneg, emit.unary(OpKind::kabs, x)));
  Value* low = emit(OpKind::kclamp_max, {x, 0.0});
  return {emit.sub(low, emit.unary(OpKind::klog1p, decay)), nullptr};
}

// self + (value * a) * b, or self + (value * a) / b. Integers are left to ATen, which converts the
// factor to an integer, and so are complex numbers, which it divides by zero in its own way.
Replacement addc(Emitter& emit, const Node& node, bool divide) {
  const DType dtype = node.result()->type().dtype;
  if (!graph::is_float(dtype)) return {};
  const DType compute = graph::compute_dtype(dtype);
  auto operand = [&](int i) { return emit.cast(graph::tensor_arg(node, i), compute); };
  Value* scaled = operand(1);
  const Argument value = graph::is_none(node, 3) ? Argument(Int(1)) : node.args()[3];
  if (!graph::is_number(value, 1)) scaled = emit.mul(scaled, value);
  Value* product = divide ? emit.div(scaled, operand(2)) : emit.mul(scaled, operand(2));
  return {emit.add(operand(0), product)};
}

// x > 0 ? x : weight * x
Replacement prelu(Emitter& emit, const Node& node) {
  Value* x = graph::tensor_arg(node, 0);
  if (!is_float(x->type().dtype)) return {};
  x = in_compute_dtype(emit, x);
  Value* weight = in_compute_dtype(emit, graph::tensor_arg(node, 1));
  return {emit.where(compare(emit, OpKind::kgt_Scalar, x, 0.0), x, emit.mul(weight, x))};
}

// a * 1 / (1 + exp(-b)) of the halves of x.
Replacement glu(Emitter& emit, const Node& node) {
  Value* x = graph::tensor_arg(node, 0);
  const TensorType& type = node.result()->type();
  if (!is_float(type.dtype) || x->type().dtype != type.dtype || type.rank() == 0) return {};
  const int64_t dim = graph::normalize_dim(graph::int_arg_or(node, 1, -1), type.rank());
  const Int half = type.sizes[dim];
  const auto part = [&](Int from, Int to) {
    return in_compute_dtype(emit, emit(OpKind::kslice_Tensor, {x, Int(dim), from, to, Int(1)}));
  };
  Value *a = part(0, half), *b = part(half, half + half);
  Value* decay = emit.unary(OpKind::kexp, emit.unary(OpKind::kneg, b));
  return {emit.mul(a, emit.unary(OpKind::kreciprocal, emit.add(decay, 1.0)))};
}

// |weight| < 0.5 ? self + weight * (end - self) : end - (end - self) * (1 - weight)
Replacement lerp(Emitter& emit, const Node& node) {
  if (!graph::is_float(node.result()->type().dtype)) return {};
  Value* self = in_compute_dtype(emit, graph::tensor_arg(node, 0));
  Value* end = in_compute_dtype(emit, graph::tensor_arg(node, 1));
  Value* difference = emit.sub(end, self);
  if (node.op().kind == OpKind::klerp_Scalar) {
    const double weight = graph::double_arg(node, 2);
    if (std::abs(weight) < 0.5) return {emit.add(self, emit.mul(difference, weight))};
    return {emit.sub(end, emit.mul(difference, 1 - weight))};
  }
  Value* weight = in_compute_dtype(emit, graph::tensor_arg(node, 2));
  Value* from_self = emit.add(self, emit.mul(weight, difference));
  Value* rest = emit.add(emit.unary(OpKind::kneg, weight), 1.0);
  Value* from_end = emit.sub(end, emit.mul(difference, rest));
  Value* small = emit(OpKind::klt_Scalar, {emit.unary(OpKind::kabs, weight), 0.5});
  return {emit.where(small, from_self, from_end)};
}

// x <= limit ? value : x. Integers are left to ATen unless their dtype holds the numbers, which
// ATen converts to it.
Replacement threshold(Emitter& emit, const Node& node) {
  Value* x = graph::tensor_arg(node, 0);
  const DType dtype = x->type().dtype;
  const Argument &limit = node.args().at(1), &value = node.args().at(2);
  if (!is_float(dtype) && !(holds(dtype, limit) && holds(dtype, value))) return {};
  x = in_compute_dtype(emit, x);
  Value* other = emit.full(graph::make_type(x->type().dtype, {}, x->type().device), value);
  return {emit.where(compare(emit, OpKind::kle_Scalar, x, limit), other, x)};
}

}  // namespace

Replacement decompose_activation(Emitter& emit, const Node& node) {
  switch (node.op().kind) {
    case OpKind::klog_sigmoid_forward:
      return log_sigmoid(emit, node);
    case OpKind::k_prelu_kernel:
      return prelu(emit, node);
    case OpKind::kglu:
      return glu(emit, node);
    case OpKind::kaddcmul:
      return addc(emit, node, false);
    case OpKind::kaddcdiv:
      return addc(emit, node, true);
    case OpKind::klerp_Scalar:
    case OpKind::klerp_Tensor:
      return lerp(emit, node);
    case OpKind::ksquare: {
      Value* x = emit.cast(graph::tensor_arg(node, 0), node.result()->type().dtype);
      return {emit.mul(x, x)};
    }
    case OpKind::khardtanh: {
      const Argument low = graph::is_none(node, 1) ? Argument(Int(-1)) : node.args()[1];
      const Argument high = graph::is_none(node, 2) ? Argument(Int(1)) : node.args()[2];
      Value* x = graph::tensor_arg(node, 0);
      if (!is_float(x->type().dtype)) return {};
      return {emit(OpKind::kclamp, {x, low, high})};
    }
    case OpKind::kthreshold:
      return threshold(emit, node);
    default: {
      if (node.op().op_class != graph::OpClass::kPointwise) return {};
      Value* const* x = node.args().empty() ? nullptr : std::get_if<Value*>(&node.args()[0]);
      if (!x || !is_float((*x)->type().dtype)) return {};
      switch (node.op().kind) {
        case OpKind::ksilu:
        case OpKind::kgelu:
        case OpKind::khardswish:
        case OpKind::khardsigmoid:
        case OpKind::kleaky_relu:
        case OpKind::kelu:
        case OpKind::ksoftplus:
        case OpKind::kmish:
          return {activation(emit, node, in_compute_dtype(emit, *x))};
        default:
          return {};
      }
    }
  }
}

}  // namespace braze::passes
