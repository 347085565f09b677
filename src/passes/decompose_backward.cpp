// Gradients of activations, dropout, softmax, layer norm, slice and select, and the nll loss
// itself, by eager's formulas.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "graph/arguments.h"
#include "graph/infer/strides.h"
#include "graph/op_kind.h"
#include "passes/decompose_rules.h"
#include "passes/loss_reduction.h"
#include "sym/facts.h"

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

Value* negated(Emitter& emit, Value* x) { return emit.unary(OpKind::kneg, x); }

// number - x
Value* from(Emitter& emit, double number, Value* x) { return emit.add(negated(emit, x), number); }

// Whether these arguments are float tensors of the result's dtype and sizes: nothing promotes.
bool are_alike(const Node& node, std::initializer_list<int> tensors) {
  const TensorType& type = node.result()->type();
  for (const int i : tensors) {
    const TensorType& own = graph::tensor_arg(node, i)->type();
    if (own.dtype != type.dtype || own.sizes != type.sizes) return false;
  }
  return graph::is_float(type.dtype);
}

// dy * (cdf + x * pdf) with cdf = 0.5 * (1 + erf(x / sqrt(2))), pdf = exp(-x^2 / 2) / sqrt(2 pi)
Value* gelu_erf(Emitter& emit, Value* dy, Value* x) {
  const double beta = std::numbers::inv_sqrtpi * std::numbers::sqrt2 / 2;
  Value* erf = emit.unary(OpKind::kerf, emit.mul(x, std::numbers::sqrt2 / 2));
  Value* cdf = emit.mul(emit.add(erf, 1.0), 0.5);
  Value* pdf = emit.mul(emit.unary(OpKind::kexp, emit.mul(emit.mul(x, x), -0.5)), beta);
  return emit.mul(dy, emit.add(cdf, emit.mul(x, pdf)));
}

// dy * (0.5 * (1 + t) + 0.5 * x * (1 - t^2) * inner') with t = tanh(inner),
// inner = beta * (x + kappa * x^3)
Value* gelu_tanh(Emitter& emit, Value* dy, Value* x) {
  const double beta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, kappa = 0.044715;
  Value* square = emit.mul(x, x);
  Value* inner = emit.mul(emit.add(x, emit.mul(emit.mul(square, x), kappa)), beta);
  Value* t = emit.unary(OpKind::ktanh, inner);
  Value* left = emit.mul(emit.add(t, 1.0), 0.5);
  // A product of the dtype.
  const double thrice =
      x->type().dtype == DType::kFloat64 ? 3 * kappa : 3.0F * static_cast<float>(kappa);
  Value* slope = emit.mul(emit.add(emit.mul(square, thrice), 1.0), beta);
  Value* decay = from(emit, 1, emit.mul(t, t));
  return emit.mul(dy, emit.add(left, emit.mul(emit.mul(emit.mul(x, 0.5), decay), slope)));
}

// dy * s * (1 + x * (1 - s)) with s = 1 / (1 + exp(-x))
Value* silu(Emitter& emit, Value* dy, Value* x) {
  Value* s =
      emit.unary(OpKind::kreciprocal, emit.add(emit.unary(OpKind::kexp, negated(emit, x)), 1.0));
  return emit.mul(emit.mul(dy, s), emit.add(emit.mul(x, from(emit, 1, s)), 1.0));
}

// Eager subtracts the square in one rounding; the product of two factors is right to 1.5 ulp.
Value* tanh(Emitter& emit, Value* dy, Value* y) {
  return emit.mul(dy, emit.mul(from(emit, 1, y), emit.add(y, 1.0)));
}

Value* leaky_relu(Emitter& emit, const Node& node, Value* dy, Value* x) {
  return emit.where(emit(OpKind::kgt_Scalar, {x, 0.0}), dy,
                    emit.mul(dy, graph::double_arg(node, 2)));
}

Value* zero_like(Emitter& emit, Value* x) {
  return emit.full(graph::make_type(x->type().dtype, {}, x->type().device), 0.0);
}

// Between bounds, neither of which is included: not NaN.
Value* lies_inside(Emitter& emit, Value* x, double low, double high) {
  return emit(OpKind::klogical_and,
              {emit(OpKind::kgt_Scalar, {x, low}), emit(OpKind::klt_Scalar, {x, high})});
}

// Zero outside of the bounds, on them, and for NaN.
Value* hardtanh(Emitter& emit, const Node& node, Value* dy, Value* x) {
  Value* inside = lies_inside(emit, x, graph::double_arg(node, 2), graph::double_arg(node, 3));
  return emit.where(inside, dy, zero_like(emit, dy));
}

// beta * x > threshold ? dy : dy * z / (z + 1) with z = exp(beta * x)
Value* softplus(Emitter& emit, const Node& node, Value* dy, Value* x) {
  Value* scaled = emit.mul(x, graph::double_arg(node, 2));
  Value* z = emit.unary(OpKind::kexp, scaled);
  return emit.where(emit(OpKind::kgt_Scalar, {scaled, graph::double_arg(node, 3)}), dy,
                    emit.div(emit.mul(dy, z), emit.add(z, 1.0)));
}

// The bound as eager compares with it: a number of single precision where it computes so.
double bound_of(const Value* x, double number) {
  return x->type().dtype == DType::kFloat64 ? number
                                            : static_cast<double>(static_cast<float>(number));
}

// dy outside of -lambda and lambda, and zero on them and for NaN, as eager's vectors have it.
// Halves are compared with a bound that is rounded to theirs, unlike in the forward.
Value* shrink(Emitter& emit, const Node& node, Value* dy, Value* x) {
  Value* given = graph::tensor_arg(node, 1);
  if (graph::is_half(given->type().dtype)) x = given;
  const double bound = bound_of(x, graph::double_arg(node, 2));
  Value* outside = emit(OpKind::klogical_or, {emit(OpKind::klt_Scalar, {x, -bound}),
                                              emit(OpKind::kgt_Scalar, {x, bound})});
  return emit.where(outside, dy, zero_like(emit, dy));
}

Value* hardswish(Emitter& emit, Value* dy, Value* x) {
  Value* slope = emit.mul(dy, emit.add(emit.div(x, 3.0), 0.5));
  Value* upper = emit.where(emit(OpKind::klt_Scalar, {x, 3.0}), slope, dy);
  return emit.where(emit(OpKind::kle_Scalar, {x, -3.0}), zero_like(emit, dy), upper);
}

// x > 0 ? (dy, 0) : (w * dy, x * dy)
Replacement prelu_backward(Emitter& emit, const Node& node) {
  if (!are_alike(node, {0, 1})) return {};
  const auto operand = [&](int i) { return in_compute_dtype(emit, graph::tensor_arg(node, i)); };
  Value *dy = operand(0), *x = operand(1), *weight = operand(2);
  Value* positive = emit(OpKind::kgt_Scalar, {x, 0.0});
  return {emit.where(positive, dy, emit.mul(weight, dy)),
          emit.where(positive, zero_like(emit, dy), emit.mul(x, dy))};
}

// Of a * s(b): dy * s and dy * a * s * (1 - s), behind each other, with s = 1 / (1 + exp(-b)).
Replacement glu_backward(Emitter& emit, const Node& node) {
  const TensorType& type = node.result()->type();
  Value *dy = graph::tensor_arg(node, 0), *x = graph::tensor_arg(node, 1);
  if (!graph::is_float(type.dtype) || dy->type().dtype != type.dtype || type.rank() == 0) return {};
  const int64_t dim = graph::normalize_dim(graph::int_arg(node, 2), type.rank());
  const Int half = dy->type().sizes[dim];
  const auto part = [&](Int from, Int to) {
    return in_compute_dtype(emit, emit(OpKind::kslice_Tensor, {x, Int(dim), from, to, Int(1)}));
  };
  Value *a = part(0, half), *b = part(half, half + half);
  dy = in_compute_dtype(emit, dy);
  Value* s =
      emit.unary(OpKind::kreciprocal, emit.add(emit.unary(OpKind::kexp, negated(emit, b)), 1.0));
  Value* through = emit.mul(dy, s);
  Value* of_gate = emit.mul(emit.mul(through, a), from(emit, 1, s));
  std::vector<Value*> both = {emit.cast(through, type.dtype), emit.cast(of_gate, type.dtype)};
  return {emit(OpKind::kcat, {std::move(both), Int(dim)})};
}

// x > 0: dy * scale; else the slope of the curve, from its argument or from its result.
Value* elu(Emitter& emit, const Node& node, Value* dy, Value* x) {
  const double alpha = graph::double_arg(node, 1), scale = graph::double_arg(node, 2);
  const double input_scale = graph::double_arg(node, 3);
  Value* curve = emit.mul(dy, input_scale);
  if (graph::bool_arg(node, 4))
    curve = emit.mul(curve, emit.add(x, alpha * scale));
  else
    curve = emit.mul(emit.mul(curve, alpha * scale),
                     emit.unary(OpKind::kexp, emit.mul(x, input_scale)));
  return emit.where(emit(OpKind::kgt_Scalar, {x, 0.0}), emit.mul(dy, scale), curve);
}

// dy * (1 - y) * y; float16 is rounded at each step.
Value* sigmoid(Emitter& emit, Value* dy, Value* y) {
  return emit.mul(emit.mul(dy, from(emit, 1, y)), y);
}

Value* activation(Emitter& emit, const Node& node, Value* dy, Value* x) {
  switch (node.op().kind) {
    case OpKind::kgelu_backward:
      return graph::string_arg_or(node, 2, "none") == "tanh" ? gelu_tanh(emit, dy, x)
                                                             : gelu_erf(emit, dy, x);
    case OpKind::ksilu_backward:
      return silu(emit, dy, x);
    case OpKind::ktanh_backward:
      return tanh(emit, dy, x);
    case OpKind::kleaky_relu_backward:
      return leaky_relu(emit, node, dy, x);
    case OpKind::khardtanh_backward:
      return hardtanh(emit, node, dy, x);
    case OpKind::kelu_backward:
      return elu(emit, node, dy, x);
    case OpKind::ksoftplus_backward:
      return softplus(emit, node, dy, x);
    case OpKind::khardswish_backward:
      return hardswish(emit, dy, x);
    case OpKind::khardsigmoid_backward:
      return emit.where(lies_inside(emit, x, -3, 3), emit.mul(dy, double{1.0F / 6}),
                        zero_like(emit, dy));
    case OpKind::khardshrink_backward:
    case OpKind::ksoftshrink_backward:
      return shrink(emit, node, dy, x);
    default:
      return sigmoid(emit, dy, x);
  }
}

// x <= threshold ? 0 : dy, for integers too; halves on CPUs in single precision, as in the forward
Replacement threshold_backward(Emitter& emit, const Node& node) {
  const TensorType& type = node.result()->type();
  for (const int i : {0, 1})
    if (graph::tensor_arg(node, i)->type().dtype != type.dtype ||
        graph::tensor_arg(node, i)->type().sizes != type.sizes)
      return {};
  if (graph::is_complex(type.dtype) || type.dtype == DType::kBool) return {};
  const bool is_float = graph::is_float(type.dtype);
  if (!is_float && graph::scalar_kind(node.args()[2]) == graph::DTypeKind::kFloat) return {};
  Value* zero = emit.full(graph::make_type(type.dtype, {}, type.device),
                          is_float ? Argument(0.0) : Argument(Int(0)));
  Value* x = graph::tensor_arg(node, 1);
  if (type.device.type == graph::Device::Type::kCPU) x = in_compute_dtype(emit, x);
  Value* low = emit(OpKind::kle_Scalar, {x, node.args()[2]});
  return {emit.where(low, zero, graph::tensor_arg(node, 0))};
}

// dy * mask * scale
Replacement dropout(Emitter& emit, const Node& node) {
  Value* dy = graph::tensor_arg(node, 0);
  Value* mask = graph::tensor_arg(node, 1);
  if (!are_alike(node, {0}) || mask->type().sizes != dy->type().sizes ||
      mask->type().dtype != DType::kBool)
    return {};
  Value* kept =
      emit.mul(in_compute_dtype(emit, dy), emit.cast(mask, graph::compute_dtype(dy->type().dtype)));
  return {emit.mul(kept, graph::double_arg(node, 2))};
}

// Of the nll loss's gradient, which is zero but at the target of each row, the sums of the rows,
// [n, 1]: to the bit what adding up gives. Null: it is another node, or sums of halves round.
Value* sums_of_nll_backward(Emitter& emit, const Node* node) {
  if (!node || node->op().kind != OpKind::knll_loss_backward) return nullptr;
  const TensorType& type = node->result()->type();
  Value* grad = graph::tensor_arg(*node, 0);
  Value* target = graph::tensor_arg(*node, 2);
  Value* weight = graph::optional_tensor_arg(*node, 3);
  Value* total = graph::tensor_arg(*node, 6);
  const int64_t reduction = graph::int_arg(*node, 4);
  const auto is_alike = [&](const Value* value) { return value->type().dtype == type.dtype; };
  if (type.rank() != 2 || target->type().rank() != 1 || target->type().dtype != DType::kInt64 ||
      type.dtype != graph::compute_dtype(type.dtype) || !is_alike(grad) || !is_alike(total) ||
      (weight && !is_alike(weight)))
    return nullptr;
  Value* ignored = emit(OpKind::keq_Scalar, {target, node->args().at(5)});
  if (reduction == kMean) grad = emit.div(grad, total);
  grad = negated(emit, grad);
  if (weight) {
    Value* first = emit.full(graph::make_type(DType::kInt64, {}, type.device), Int(0));
    Value* place = emit.where(ignored, first, target);
    grad = emit.mul(grad, emit(OpKind::kindex_select, {weight, Int(0), place}));
  }
  Value* none = emit.full(graph::make_type(type.dtype, {}, type.device), 0.0);
  return emit(OpKind::kunsqueeze, {emit.where(ignored, none, grad), Int(1)});
}

// The sums of the rows of a loss's gradient, [n, 1], where they follow from fewer numbers: of what
// the nll loss gives, of one number for all of a row, and of sums of these. Null: they do not.
Value* sums_of_rows(Emitter& emit, Value* x) {
  const Node* node = x->producer();
  if (!node || x->type().rank() != 2 || !graph::is_float(x->type().dtype) ||
      graph::is_half(x->type().dtype))
    return nullptr;
  if (node->op().kind == OpKind::kexpand) {
    Value* of = graph::tensor_arg(*node, 0);
    const bool is_one = of->type().rank() == 2 && of->type().sizes[1] == Int(1) &&
                        of->type().sizes[0] == x->type().sizes[0];
    const Int count = x->type().sizes[1];
    return is_one && count.is_constant() ? emit.mul(of, static_cast<double>(count.constant()))
                                         : nullptr;
  }
  if (node->op().kind == OpKind::kadd_Tensor && node->operands().size() == 2 &&
      graph::is_number(node->args().at(2), 1) && are_alike(*node, {0, 1})) {
    Value* left = sums_of_rows(emit, graph::tensor_arg(*node, 0));
    Value* right = left ? sums_of_rows(emit, graph::tensor_arg(*node, 1)) : nullptr;
    return right ? emit.add(left, right) : nullptr;
  }
  return sums_of_nll_backward(emit, node);
}

// y * (dy - sum(dy * y)), of log-softmax dy - exp(y) * sum(dy)
Replacement softmax(Emitter& emit, const Node& node, bool log) {
  if (!are_alike(node, {0, 1}) || node.result()->type().rank() == 0) return {};
  Value* dy = in_compute_dtype(emit, graph::tensor_arg(node, 0));
  Value* y = in_compute_dtype(emit, graph::tensor_arg(node, 1));
  Value* part = log ? dy : emit.mul(dy, y);
  const int64_t dim = graph::int_arg(node, 2);
  const bool of_rows = graph::normalize_dim(dim, node.result()->type().rank()) == 1;
  Value* sum = log && of_rows ? sums_of_rows(emit, dy) : nullptr;
  if (!sum) sum = emit(OpKind::ksum_dim_IntList, {part, Dims{Int(dim)}, true, None{}});
  if (log) return {emit.sub(dy, emit.mul(emit.unary(OpKind::kexp, y), sum))};
  return {emit.mul(emit.sub(dy, sum), y)};
}

// What layer norm's gradients are made of, in the dtype that eager computes in.
struct LayerNorm {
  Value *dy, *x, *mean, *rstd;
  Value* weight;  // null: none
  Dims rows;      // dims of the rows: those that are normalised
  Dims batch;     // the others
  Int size;       // of a row
};

// rstd * dy * weight + b * x + c, where b and c follow from two sums over each row.
Value* layer_norm_input(Emitter& emit, const LayerNorm& norm) {
  const auto [dy, x, mean, rstd, weight, rows, batch, size] = norm;
  auto weighted = [&, weight = weight](Value* v) { return weight ? emit.mul(v, weight) : v; };
  auto sum = [&, rows = rows](Value* v) {
    return emit(OpKind::ksum_dim_IntList, {v, rows, true, None{}});
  };
  auto scaled = [&, size = size](Value* v) {
    if (size.is_constant()) return emit.mul(v, 1.0 / static_cast<double>(size.constant()));
    return emit.div(v, size);
  };
  // No value of the size of x is used twice: a matrix that has several readers may be stored.
  Value* ds = sum(weighted(emit.mul(dy, x)));
  Value* db = sum(weighted(dy));
  Value* cube = emit.mul(emit.mul(emit.mul(emit.sub(emit.mul(db, mean), ds), rstd), rstd), rstd);
  Value* b = scaled(cube);
  Value* c = emit.sub(emit.mul(negated(emit, b), mean), scaled(emit.mul(db, rstd)));
  return emit.add(emit.add(weighted(emit.mul(rstd, dy)), emit.mul(b, x)), c);
}

// dy, x, normalised sizes, mean, rstd, weight, bias, which are wanted
Replacement layer_norm_backward(Emitter& emit, const Node& node) {
  Value* input = graph::tensor_arg(node, 1);
  if (!graph::is_float(input->type().dtype) ||
      graph::tensor_arg(node, 0)->type().dtype != input->type().dtype)
    return {};
  const DType dtype = graph::compute_dtype(input->type().dtype);
  auto operand = [&](int i) { return emit.cast(graph::tensor_arg(node, i), dtype); };
  const Dims normalized = graph::dims_arg(node, 2);
  const int64_t rank = input->type().rank();
  const int64_t first = rank - static_cast<int64_t>(normalized.size());
  LayerNorm norm{.dy = operand(0), .x = operand(1), .mean = operand(3), .rstd = operand(4)};
  if (graph::optional_tensor_arg(node, 5)) norm.weight = operand(5);
  norm.size = sym::product(normalized);
  if (!sym::known_positive(norm.size) || first == rank) return {};
  for (int64_t i = 0; i < rank; ++i) (i < first ? norm.batch : norm.rows).push_back(Int(i));
  auto over_batch = [&](Value* v) {
    if (norm.batch.empty()) return v;
    return emit(OpKind::ksum_dim_IntList, {v, norm.batch, false, None{}});
  };
  Replacement results(3);
  if (is_used(emit, node, 0)) results[0] = layer_norm_input(emit, norm);
  if (is_used(emit, node, 1)) {
    Value* shift = emit.mul(negated(emit, norm.rstd), norm.mean);
    Value* normal = emit.add(emit.mul(norm.rstd, norm.x), shift);
    results[1] = over_batch(emit.mul(norm.dy, normal));
  }
  if (is_used(emit, node, 2)) results[2] = over_batch(norm.dy);
  return results;
}

// x[i, column[i]], [n, c] and [n, 1] to [n]. Of a difference to a number of each row, such as the
// logarithm of a softmax, only the elements that are picked are computed.
Value* picked(Emitter& emit, Value* x, Value* column) {
  const Node* from = x->producer();
  if (from && from->op().kind == OpKind::ksub_Tensor && graph::is_number(from->args().at(2), 1) &&
      from->operands().size() == 2) {
    Value *left = graph::tensor_arg(*from, 0), *right = graph::tensor_arg(*from, 1);
    if (left->type().sizes == x->type().sizes && right->type().rank() == 2 &&
        right->type().sizes[1] == Int(1) && right->type().sizes[0] == x->type().sizes[0])
      return emit.sub(picked(emit, left, column), emit(OpKind::ksqueeze_dim, {right, Int(1)}));
  }
  return emit(OpKind::ksqueeze_dim, {emit(OpKind::kgather, {x, Int(1), column, false}), Int(1)});
}

// -x[i, target[i]] * weight[target[i]], zero where the target is to be ignored; with reduction 0
// that is the result. Eager adds up halves in half precision, so they are left to it.
Replacement nll_loss(Emitter& emit, const Node& node) {
  Value* x = graph::tensor_arg(node, 0);
  Value* target = graph::tensor_arg(node, 1);
  Value* weight = graph::optional_tensor_arg(node, 2);
  const int64_t reduction = graph::int_arg(node, 3);
  const DType dtype = x->type().dtype;
  if (x->type().rank() != 2 || target->type().rank() != 1 ||
      target->type().dtype != DType::kInt64 || !graph::is_float(dtype) ||
      (graph::is_half(dtype) && reduction != 0) || (weight && weight->type().dtype != dtype))
    return {};
  auto number = [&](DType of, Argument value) {
    return emit.full(graph::make_type(of, {}, x->type().device), std::move(value));
  };
  Value* ignored = emit(OpKind::keq_Scalar, {target, node.args().at(4)});
  Value* place = emit.where(ignored, number(DType::kInt64, Int(0)), target);
  Value* column = emit(OpKind::kunsqueeze, {place, Int(1)});
  Value* loss = negated(emit, in_compute_dtype(emit, picked(emit, x, column)));
  Value* zero = number(loss->type().dtype, 0.0);
  Value* share = nullptr;
  if (weight) {
    share = in_compute_dtype(emit, emit(OpKind::kindex_select, {weight, Int(0), place}));
    loss = emit.mul(loss, share);
  }
  loss = emit.where(ignored, zero, loss);
  if (reduction == 0) return {loss, is_used(emit, node, 1) ? number(dtype, 0.0) : nullptr};
  auto sum = [&](Value* v) { return emit(OpKind::ksum, {v, None{}}); };
  Value* total = nullptr;
  if (is_used(emit, node, 1) || reduction == kMean) {
    if (!share) share = number(dtype, 1.0);
    total = sum(emit.where(ignored, zero, share));
  }
  Value* out = sum(loss);
  if (reduction == kMean) out = emit.div(out, total);
  return {out, total};
}

Value* zeros(Emitter& emit, const Node& node) {
  Value* dy = graph::tensor_arg(node, 0);
  return emit.full(graph::make_type(dy->type().dtype, graph::dims_arg(node, 1), dy->type().device),
                   graph::is_float(dy->type().dtype) ? Argument(0.0) : Argument(Int(0)));
}

}  // namespace

Replacement decompose_backward(Emitter& emit, const Node& node) {
  switch (node.op().kind) {
    case OpKind::kgelu_backward:
    case OpKind::ksilu_backward:
    case OpKind::ktanh_backward:
    case OpKind::kleaky_relu_backward:
    case OpKind::khardtanh_backward:
    case OpKind::ksoftplus_backward:
    case OpKind::khardswish_backward:
    case OpKind::khardsigmoid_backward:
    case OpKind::khardshrink_backward:
    case OpKind::ksoftshrink_backward:
      if (!are_alike(node, {0, 1})) return {};
      return {activation(emit, node, in_compute_dtype(emit, graph::tensor_arg(node, 0)),
                         in_compute_dtype(emit, graph::tensor_arg(node, 1)))};
    case OpKind::kelu_backward:
      if (!are_alike(node, {0, 5})) return {};
      return {activation(emit, node, in_compute_dtype(emit, graph::tensor_arg(node, 0)),
                         in_compute_dtype(emit, graph::tensor_arg(node, 5)))};
    case OpKind::ksigmoid_backward: {
      if (!are_alike(node, {0, 1})) return {};
      Value *dy = graph::tensor_arg(node, 0), *y = graph::tensor_arg(node, 1);
      if (dy->type().dtype == DType::kBFloat16)
        return {sigmoid(emit, in_compute_dtype(emit, dy), in_compute_dtype(emit, y))};
      return {sigmoid(emit, dy, y)};
    }
    case OpKind::k_prelu_kernel_backward:
      return prelu_backward(emit, node);
    case OpKind::kglu_backward:
      return glu_backward(emit, node);
    case OpKind::kthreshold_backward:
      return threshold_backward(emit, node);
    case OpKind::knative_dropout_backward:
      return dropout(emit, node);
    case OpKind::k_softmax_backward_data:
      return softmax(emit, node, false);
    case OpKind::k_log_softmax_backward_data:
      return softmax(emit, node, true);
    case OpKind::knative_layer_norm_backward:
      return layer_norm_backward(emit, node);
    case OpKind::knll_loss_forward:
      return nll_loss(emit, node);
    case OpKind::kslice_backward:  // dim, start, end, step
      return {emit(OpKind::kslice_scatter,
                   {zeros(emit, node), graph::tensor_arg(node, 0), node.args().at(2),
                    node.args().at(3), node.args().at(4), node.args().at(5)})};
    case OpKind::kselect_backward:  // dim, index
      return {emit(OpKind::kselect_scatter, {zeros(emit, node), graph::tensor_arg(node, 0),
                                             node.args().at(2), node.args().at(3)})};
    default:
      return {};
  }
}

}  // namespace braze::passes
