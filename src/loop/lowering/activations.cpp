// Elementwise functions of neural networks, by eager's formulas.
#include <cmath>
#include <limits>

#include "loop/lowering/pointwise.h"

namespace braze::loop::lowering {
namespace {

using graph::OpKind;
using K = ExprKind;

// x -> result, computed in f32 or f64.
using Activation = std::function<ExprRef(ExprPool& pool, ExprRef x)>;

bool lower_activation(Lowering& lowering, const Node& node, int size, bool heavy, Activation f) {
  const DType dtype = node.result()->type().dtype;
  if (!graph::is_float(dtype)) return false;
  return define_pointwise(
      lowering, node, {operand_arg(node, 0)}, dtype, {size, heavy},
      [f = std::move(f)](ExprPool& pool, std::span<const ExprRef> x) { return f(pool, x[0]); });
}

ExprRef number(ExprPool& pool, ExprRef like, double value) {
  return pool.constant(like->dtype, value);
}
ExprRef times(ExprPool& pool, ExprRef x, double factor) {
  return pool.mul(x, number(pool, x, factor));
}
ExprRef plus(ExprPool& pool, ExprRef x, double term) { return pool.add(x, number(pool, x, term)); }

bool lower_gelu(Lowering& lowering, const Node& node) {
  if (graph::string_arg_or(node, 1, "none") == "tanh") {
    return lower_activation(lowering, node, 9, true, [](ExprPool& pool, ExprRef x) {
      ExprRef cubed = pool.mul(pool.mul(x, x), x);
      ExprRef inner = times(pool, pool.add(x, times(pool, cubed, 0.044715)),
                            std::sqrt(2.0) * 2 / std::sqrt(M_PI) * 0.5);
      return pool.mul(times(pool, x, 0.5), plus(pool, pool.unary(K::kTanh, inner), 1));
    });
  }
  return lower_activation(lowering, node, 5, true, [](ExprPool& pool, ExprRef x) {
    ExprRef erf = pool.unary(K::kErf, times(pool, x, M_SQRT1_2));
    return pool.mul(times(pool, x, 0.5), plus(pool, erf, 1));
  });
}

bool lower_silu(Lowering& lowering, const Node& node) {
  return lower_activation(lowering, node, 3, true, [](ExprPool& pool, ExprRef x) {
    ExprRef exp = pool.unary(K::kExp, pool.unary(K::kNeg, x));
    return pool.binary(K::kDiv, x, plus(pool, exp, 1));
  });
}

bool lower_hardtanh(Lowering& lowering, const Node& node) {
  const double lo = graph::double_arg_or(node, 1, -1), hi = graph::double_arg_or(node, 2, 1);
  return lower_activation(lowering, node, 2, false, [lo, hi](ExprPool& pool, ExprRef x) {
    return clamp(pool, x, number(pool, x, lo), number(pool, x, hi));
  });
}

bool lower_leaky_relu(Lowering& lowering, const Node& node) {
  const double slope = graph::double_arg_or(node, 1, 0.01);
  return lower_activation(lowering, node, 3, false, [slope](ExprPool& pool, ExprRef x) {
    return pool.where(greater(pool, x, number(pool, x, 0)), x, times(pool, x, slope));
  });
}

bool lower_elu(Lowering& lowering, const Node& node) {
  const double alpha = graph::double_arg_or(node, 1, 1), scale = graph::double_arg_or(node, 2, 1);
  const double input_scale = graph::double_arg_or(node, 3, 1);
  return lower_activation(lowering, node, 6, true, [=](ExprPool& pool, ExprRef x) {
    ExprRef curve = pool.unary(K::kExpm1, times(pool, x, input_scale));
    return pool.where(pool.binary(K::kLt, x, number(pool, x, 0)), times(pool, curve, alpha * scale),
                      times(pool, x, scale));
  });
}

// min(max(x + 3, 0), 6)
ExprRef ramp(ExprPool& pool, ExprRef x) {
  return clamp(pool, plus(pool, x, 3), number(pool, x, 0), number(pool, x, 6));
}

bool lower_hardsigmoid(Lowering& lowering, const Node& node) {
  return lower_activation(lowering, node, 4, false, [](ExprPool& pool, ExprRef x) {
    return pool.binary(K::kDiv, ramp(pool, x), number(pool, x, 6));
  });
}

bool lower_hardswish(Lowering& lowering, const Node& node) {
  return lower_activation(lowering, node, 5, false, [](ExprPool& pool, ExprRef x) {
    return pool.binary(K::kDiv, pool.mul(x, ramp(pool, x)), number(pool, x, 6));
  });
}

bool lower_softplus(Lowering& lowering, const Node& node) {
  const double beta = graph::double_arg_or(node, 1, 1), limit = graph::double_arg_or(node, 2, 20);
  return lower_activation(lowering, node, 6, true, [beta, limit](ExprPool& pool, ExprRef x) {
    ExprRef scaled = times(pool, x, beta);
    ExprRef soft = pool.binary(K::kDiv, pool.unary(K::kLog1p, pool.unary(K::kExp, scaled)),
                               number(pool, x, beta));
    return pool.where(greater(pool, scaled, number(pool, x, limit)), x, soft);
  });
}

bool lower_mish(Lowering& lowering, const Node& node) {
  return lower_activation(lowering, node, 4, true, [](ExprPool& pool, ExprRef x) {
    return pool.mul(x, pool.unary(K::kTanh, pool.unary(K::kLog1p, pool.unary(K::kExp, x))));
  });
}

// min(x, 0) - log1p(exp(-|x|)); the second result is scratch memory of the backward pass.
bool lower_log_sigmoid(Lowering& lowering, const Node& node) {
  if (node.results().size() > 1 && node.result(1) && lowering.uses(node.result(1)) > 0)
    return false;
  return lower_activation(lowering, node, 6, true, [](ExprPool& pool, ExprRef x) {
    ExprRef exp = pool.unary(K::kExp, pool.unary(K::kNeg, pool.unary(K::kAbs, x)));
    return pool.binary(K::kSub, pool.binary(K::kMin, x, number(pool, x, 0)),
                       pool.unary(K::kLog1p, exp));
  });
}

bool lower_threshold(Lowering& lowering, const Node& node) {
  const DType dtype = node.result()->type().dtype;
  ExprRef limit = number_as(lowering.pool(), node.args().at(1), dtype);
  ExprRef value = number_as(lowering.pool(), node.args().at(2), dtype);
  if (!limit || !value || dtype == DType::kBool) return false;
  return define_pointwise(lowering, node, {operand_arg(node, 0)}, dtype, {2, false},
                          [limit, value](ExprPool& pool, std::span<const ExprRef> x) {
                            return pool.where(pool.binary(K::kLe, x[0], limit), value, x[0]);
                          });
}

// What stands for an infinity that was not given: the ends of the tensor's dtype.
double largest(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 65504;
    case DType::kBFloat16:
      return std::ldexp(255.0, 120);
    case DType::kFloat64:
      return std::numeric_limits<double>::max();
    default:
      return std::numeric_limits<float>::max();
  }
}

bool lower_nan_to_num(Lowering& lowering, const Node& node) {
  const double limit = largest(node.result()->type().dtype);
  const double nan = graph::double_arg_or(node, 1, 0);
  const double high = graph::double_arg_or(node, 2, limit);
  const double low = graph::double_arg_or(node, 3, -limit);
  return lower_activation(lowering, node, 6, false, [=](ExprPool& pool, ExprRef x) {
    ExprRef infinity = number(pool, x, INFINITY);
    ExprRef finite = pool.where(
        pool.binary(K::kEq, x, infinity), number(pool, x, high),
        pool.where(pool.binary(K::kEq, x, number(pool, x, -INFINITY)), number(pool, x, low), x));
    return pool.where(pool.unary(K::kIsNan, x), number(pool, x, nan), finite);
  });
}

}  // namespace

Handler activation_handler(OpKind kind) {
  switch (kind) {
    case OpKind::kgelu:
      return lower_gelu;
    case OpKind::ksilu:
      return lower_silu;
    case OpKind::khardtanh:
      return lower_hardtanh;
    case OpKind::kleaky_relu:
      return lower_leaky_relu;
    case OpKind::kelu:
      return lower_elu;
    case OpKind::khardsigmoid:
      return lower_hardsigmoid;
    case OpKind::khardswish:
      return lower_hardswish;
    case OpKind::ksoftplus:
      return lower_softplus;
    case OpKind::kmish:
      return lower_mish;
    case OpKind::klog_sigmoid_forward:
      return lower_log_sigmoid;
    case OpKind::kthreshold:
      return lower_threshold;
    case OpKind::knan_to_num:
      return lower_nan_to_num;
    default:
      return nullptr;  // other families, or an extern call
  }
}

}  // namespace braze::loop::lowering
