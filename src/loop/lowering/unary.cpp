// Pointwise functions of one operand.
#include <cmath>
#include <limits>

#include "graph/op_kind.h"
#include "loop/lowering/pointwise.h"

namespace braze::loop::lowering {
namespace {

using graph::OpKind;
using K = ExprKind;

// Functions whose result is a float, of integers too.
template <K kind, bool heavy>
bool float_function(Lowering& lowering, const Node& node) {
  return lower_unary(lowering, node, unary<kind>, heavy);
}

// Functions that keep the dtype and have no bool version.
template <K kind>
bool numeric_function(Lowering& lowering, const Node& node) {
  if (result_dtype(node) == DType::kBool) return false;
  return lower_unary(lowering, node, unary<kind>);
}

bool lower_reciprocal(Lowering& lowering, const Node& node) {
  return lower_unary(lowering, node, [](ExprPool& pool, ExprRef x) {
    return pool.binary(K::kDiv, pool.constant(x->dtype, 1), x);
  });
}

bool lower_sign(Lowering& lowering, const Node& node) {
  return lower_unary(lowering, node, [](ExprPool& pool, ExprRef x) {
    if (x->dtype == DType::kBool) return x;
    ExprRef zero = pool.number(x->dtype, 0);
    ExprRef negative = zero;
    if (x->dtype != DType::kUInt8)
      negative = pool.where(pool.binary(K::kLt, x, zero), pool.number(x->dtype, -1), zero);
    return pool.where(greater(pool, x, zero), pool.number(x->dtype, 1), negative);
  });
}

bool lower_relu(Lowering& lowering, const Node& node) {
  if (result_dtype(node) == DType::kBool) return false;
  return lower_unary(lowering, node, [](ExprPool& pool, ExprRef x) {
    return pool.binary(K::kMax, x, pool.number(x->dtype, 0));
  });
}

// Tests of one operand in its own dtype.
bool lower_test(Lowering& lowering, const Node& node, Unary formula) {
  Operand x = operand_arg(node, 0);
  if (!x.value) return false;
  return define_pointwise(
      lowering, node, {x}, x.value->type().dtype, {1, false},
      [formula](ExprPool& pool, std::span<const ExprRef> e) { return formula(pool, e[0]); });
}

ExprRef is_special(ExprPool& pool, K kind, ExprRef x) {
  return graph::is_float(x->dtype) ? pool.unary(kind, x) : pool.integer(0, DType::kBool);
}

bool lower_isnan(Lowering& lowering, const Node& node) {
  return lower_test(lowering, node,
                    [](ExprPool& pool, ExprRef x) { return is_special(pool, K::kIsNan, x); });
}
bool lower_isinf(Lowering& lowering, const Node& node) {
  return lower_test(lowering, node,
                    [](ExprPool& pool, ExprRef x) { return is_special(pool, K::kIsInf, x); });
}
bool lower_isfinite(Lowering& lowering, const Node& node) {
  return lower_test(lowering, node, [](ExprPool& pool, ExprRef x) {
    return pool.unary(K::kNot, pool.binary(K::kOr, is_special(pool, K::kIsNan, x),
                                           is_special(pool, K::kIsInf, x)));
  });
}
bool lower_logical_not(Lowering& lowering, const Node& node) {
  return lower_test(lowering, node, [](ExprPool& pool, ExprRef x) {
    return pool.unary(K::kNot, to_bool(pool, x));
  });
}

// What nan_to_num puts in place of an infinity by default: the largest number of the dtype.
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
  const DType dtype = result_dtype(node);
  if (!graph::is_float(dtype)) return false;
  const double limit = largest(dtype);
  const double nan = graph::double_arg_or(node, 1, 0);
  const double high = graph::double_arg_or(node, 2, limit);
  const double low = graph::double_arg_or(node, 3, -limit);
  auto formula = [=](ExprPool& pool, std::span<const ExprRef> operands) {
    ExprRef x = operands[0];
    auto number = [&](double value) { return pool.constant(x->dtype, value); };
    ExprRef finite =
        pool.where(pool.binary(K::kEq, x, number(INFINITY)), number(high),
                   pool.where(pool.binary(K::kEq, x, number(-INFINITY)), number(low), x));
    return pool.where(pool.unary(K::kIsNan, x), number(nan), finite);
  };
  return define_pointwise(lowering, node, {operand_arg(node, 0)}, dtype, {6, false}, formula);
}

}  // namespace

Handler unary_handler(OpKind kind) {
  switch (kind) {
    case OpKind::kabs:
      return numeric_function<K::kAbs>;
    case OpKind::kneg:
      return numeric_function<K::kNeg>;
    case OpKind::kexp:
      return float_function<K::kExp, true>;
    case OpKind::kexp2:
      return float_function<K::kExp2, true>;
    case OpKind::kexpm1:
      return float_function<K::kExpm1, true>;
    case OpKind::klog:
      return float_function<K::kLog, true>;
    case OpKind::klog2:
      return float_function<K::kLog2, true>;
    case OpKind::klog10:
      return float_function<K::kLog10, true>;
    case OpKind::klog1p:
      return float_function<K::kLog1p, true>;
    case OpKind::ksqrt:
      return float_function<K::kSqrt, false>;
    case OpKind::krsqrt:
      return float_function<K::kRsqrt, false>;
    case OpKind::ksin:
      return float_function<K::kSin, true>;
    case OpKind::kcos:
      return float_function<K::kCos, true>;
    case OpKind::ktan:
      return float_function<K::kTan, true>;
    case OpKind::kasin:
      return float_function<K::kAsin, true>;
    case OpKind::kacos:
      return float_function<K::kAcos, true>;
    case OpKind::katan:
      return float_function<K::kAtan, true>;
    case OpKind::ksinh:
      return float_function<K::kSinh, true>;
    case OpKind::kcosh:
      return float_function<K::kCosh, true>;
    case OpKind::ktanh:
      return float_function<K::kTanh, true>;
    case OpKind::kerf:
      return float_function<K::kErf, true>;
    case OpKind::ksigmoid:
      return float_function<K::kSigmoid, true>;
    case OpKind::kfloor:
      return numeric_function<K::kFloor>;
    case OpKind::kceil:
      return numeric_function<K::kCeil>;
    case OpKind::ktrunc:
      return numeric_function<K::kTrunc>;
    case OpKind::kround:
      return numeric_function<K::kRound>;
    case OpKind::kreciprocal:
      return lower_reciprocal;
    case OpKind::ksign:
      return lower_sign;
    case OpKind::krelu:
      return lower_relu;
    case OpKind::klogical_not:
      return lower_logical_not;
    case OpKind::kbitwise_not:
      return [](Lowering& lowering, const Node& node) {
        return lower_unary(lowering, node, unary<K::kBitNot>);
      };
    case OpKind::kisnan:
      return lower_isnan;
    case OpKind::kisinf:
      return lower_isinf;
    case OpKind::kisfinite:
      return lower_isfinite;
    case OpKind::knan_to_num:
      return lower_nan_to_num;
    default:
      return nullptr;  // other families, or an extern call
  }
}

}  // namespace braze::loop::lowering
