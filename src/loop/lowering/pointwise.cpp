#include "loop/lowering/pointwise.h"

#include <cmath>

#include "loop/scalar.h"

namespace braze::loop::lowering {

using graph::OpKind;
using K = ExprKind;

Operand operand_arg(const Node& node, int i) {
  const graph::Argument& argument = node.args().at(i);
  if (auto* value = std::get_if<Value*>(&argument)) return {*value, {}};
  return {nullptr, argument};
}

ExprRef number_as(ExprPool& pool, const graph::Argument& number, DType dtype) {
  if (auto* integer = std::get_if<sym::Int>(&number); integer && integer->is_constant()) {
    int64_t value = integer->constant();
    if (!graph::is_float(dtype))
      return wrap(dtype, value) == value ? pool.integer(value, dtype) : nullptr;
    // Halves are computed in f32, where eager may or may not round a number first.
    double rounded = round_to(dtype, static_cast<double>(value));
    if (dtype != compute_dtype(dtype) && rounded != static_cast<double>(value)) return nullptr;
    return pool.constant(compute_dtype(dtype), rounded);
  }
  if (auto* flag = std::get_if<bool>(&number)) return pool.number(compute_dtype(dtype), *flag);
  auto* value = std::get_if<double>(&number);
  if (!value || !graph::is_float(dtype)) return nullptr;
  double rounded = round_to(dtype, *value);
  if (dtype != compute_dtype(dtype) && rounded != *value && !std::isnan(*value)) return nullptr;
  return pool.constant(compute_dtype(dtype), rounded);
}

bool define_pointwise(Lowering& lowering, const Node& node, std::vector<Operand> operands,
                      DType dtype, Cost cost, Formula formula) {
  std::vector<ExprRef> numbers;
  std::vector<Value*> values;
  for (const Operand& operand : operands) {
    ExprRef number = nullptr;
    if (operand.value) {
      values.push_back(operand.value);
    } else if (!(number = number_as(lowering.pool(), operand.number, dtype))) {
      return false;
    }
    numbers.push_back(number);
  }
  const DType result = node.result()->type().dtype;
  auto at = [&lowering, operands, numbers, compute = compute_dtype(dtype), result,
             formula](IndexView index) {
    ExprPool& pool = lowering.pool();
    ExprRef x[4];
    for (size_t i = 0; i < operands.size(); ++i) {
      x[i] = numbers[i] ? numbers[i]
                        : pool.cast(lowering.broadcast_element(operands[i].value, index), compute);
    }
    return pool.cast(formula(pool, std::span<const ExprRef>(x, operands.size())), result);
  };
  lowering.define(node, 0, lowering.traits_over(node, values, cost.size, cost.heavy), at);
  return true;
}

ExprRef greater(ExprPool& pool, ExprRef a, ExprRef b) { return pool.binary(K::kLt, b, a); }

ExprRef clamp(ExprPool& pool, ExprRef x, ExprRef lo, ExprRef hi) {
  if (lo) x = pool.binary(K::kMax, x, lo);
  if (hi) x = pool.binary(K::kMin, x, hi);
  return x;
}

namespace {

using Unary = ExprRef (*)(ExprPool& pool, ExprRef x);
using Binary = ExprRef (*)(ExprPool& pool, ExprRef a, ExprRef b);

DType result_dtype(const Node& node) { return node.result()->type().dtype; }

// The dtype that operands are compared or combined in when the result has another.
DType common_dtype(const Node& node, int count) {
  return graph::result_type(std::span(node.args()).first(count));
}

bool lower_unary(Lowering& lowering, const Node& node, Unary formula, bool heavy = false) {
  return define_pointwise(
      lowering, node, {operand_arg(node, 0)}, result_dtype(node), {1, heavy},
      [formula](ExprPool& pool, std::span<const ExprRef> x) { return formula(pool, x[0]); });
}

bool lower_binary(Lowering& lowering, const Node& node, DType dtype, Binary formula,
                  bool heavy = false) {
  return define_pointwise(
      lowering, node, {operand_arg(node, 0), operand_arg(node, 1)}, dtype, {1, heavy},
      [formula](ExprPool& pool, std::span<const ExprRef> x) { return formula(pool, x[0], x[1]); });
}

template <K kind>
ExprRef unary(ExprPool& pool, ExprRef x) {
  return pool.unary(kind, x);
}
template <K kind>
ExprRef binary(ExprPool& pool, ExprRef a, ExprRef b) {
  return pool.binary(kind, a, b);
}
template <K kind>
ExprRef swapped(ExprPool& pool, ExprRef a, ExprRef b) {
  return pool.binary(kind, b, a);
}

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

bool lower_square(Lowering& lowering, const Node& node) {
  return lower_unary(lowering, node, [](ExprPool& pool, ExprRef x) {
    return x->dtype == DType::kBool ? x : pool.mul(x, x);
  });
}

ExprRef to_bool(ExprPool& pool, ExprRef x) { return pool.cast(x, DType::kBool); }

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

template <K kind>
bool comparison(Lowering& lowering, const Node& node) {
  return lower_binary(lowering, node, common_dtype(node, 2), binary<kind>);
}
template <K kind>
bool swapped_comparison(Lowering& lowering, const Node& node) {
  return lower_binary(lowering, node, common_dtype(node, 2), swapped<kind>);
}
template <K kind>
bool bitwise(Lowering& lowering, const Node& node) {
  return lower_binary(lowering, node, result_dtype(node), binary<kind>);
}

// Each operand's own truth.
template <K kind>
bool logical(Lowering& lowering, const Node& node) {
  Value* a = graph::tensor_arg(node, 0);
  Value* b = graph::tensor_arg(node, 1);
  Value* both[] = {a, b};
  lowering.define(node, 0, lowering.traits_over(node, both, 1), [&lowering, a, b](IndexView index) {
    ExprPool& pool = lowering.pool();
    return pool.binary(kind, to_bool(pool, lowering.broadcast_element(a, index)),
                       to_bool(pool, lowering.broadcast_element(b, index)));
  });
  return true;
}

// a + alpha*b, a - alpha*b, b - alpha*a.
enum class Sum { kAdd, kSubtract, kSubtractFrom };
template <Sum sum>
bool lower_sum(Lowering& lowering, const Node& node) {
  const DType dtype = result_dtype(node);
  const bool plain = graph::is_none(node, 2) || graph::is_number(node.args()[2], 1);
  if (dtype == DType::kBool && (!plain || sum != Sum::kAdd)) return false;
  Operand a = operand_arg(node, 0), b = operand_arg(node, 1);
  if (sum == Sum::kSubtractFrom) std::swap(a, b);
  ExprRef alpha = nullptr;
  if (!plain && !(alpha = number_as(lowering.pool(), node.args()[2], dtype))) return false;
  return define_pointwise(lowering, node, {a, b}, dtype, {plain ? 1 : 2, false},
                          [alpha](ExprPool& pool, std::span<const ExprRef> x) {
                            if (x[0]->dtype == DType::kBool) return pool.binary(K::kOr, x[0], x[1]);
                            ExprRef second = alpha ? pool.mul(x[1], alpha) : x[1];
                            return pool.binary(sum == Sum::kAdd ? K::kAdd : K::kSub, x[0], second);
                          });
}

bool lower_mul(Lowering& lowering, const Node& node) {
  return lower_binary(lowering, node, result_dtype(node), [](ExprPool& pool, ExprRef a, ExprRef b) {
    return pool.binary(a->dtype == DType::kBool ? K::kAnd : K::kMul, a, b);
  });
}

bool lower_true_div(Lowering& lowering, const Node& node) {
  return lower_binary(lowering, node, result_dtype(node), binary<K::kDiv>);
}

// Whether argument 1 is an integer other than zero, so that nothing can be divided by zero.
bool by_nonzero_integer(const Node& node) {
  auto* divisor = std::get_if<sym::Int>(&node.args().at(1));
  return divisor && divisor->is_constant() && divisor->constant() != 0;
}

bool lower_integer_division(Lowering& lowering, const Node& node, K kind) {
  if (!graph::is_integral(result_dtype(node), false) || !by_nonzero_integer(node)) return false;
  return lower_binary(lowering, node, result_dtype(node),
                      kind == K::kFloorDiv ? binary<K::kFloorDiv> : binary<K::kTruncDiv>);
}

bool lower_floor_divide(Lowering& lowering, const Node& node) {
  return lower_integer_division(lowering, node, K::kFloorDiv);
}

bool lower_div_mode(Lowering& lowering, const Node& node) {
  std::string mode = graph::string_arg_or(node, 2, "");
  if (mode.empty()) return lower_true_div(lowering, node);
  if (mode == "floor") return lower_floor_divide(lowering, node);
  if (!graph::is_float(result_dtype(node)))
    return lower_integer_division(lowering, node, K::kTruncDiv);
  if (result_dtype(node) != compute_dtype(result_dtype(node))) return false;
  return lower_binary(lowering, node, result_dtype(node), [](ExprPool& pool, ExprRef a, ExprRef b) {
    return pool.unary(K::kTrunc, pool.binary(K::kDiv, a, b));
  });
}

bool lower_remainder(Lowering& lowering, const Node& node) {
  if (!graph::is_float(result_dtype(node))) {
    if (!by_nonzero_integer(node) || result_dtype(node) == DType::kBool) return false;
    return lower_binary(lowering, node, result_dtype(node), binary<K::kMod>);
  }
  // fmod, moved to the divisor's sign.
  return lower_binary(lowering, node, result_dtype(node), [](ExprPool& pool, ExprRef a, ExprRef b) {
    ExprRef zero = pool.constant(a->dtype, 0);
    ExprRef rest = pool.binary(K::kFmod, a, b);
    ExprRef signs_differ =
        pool.binary(K::kXor, pool.binary(K::kLt, b, zero), pool.binary(K::kLt, rest, zero));
    ExprRef move = pool.binary(K::kAnd, pool.binary(K::kNe, rest, zero), signs_differ);
    return pool.where(move, pool.add(rest, b), rest);
  });
}

bool lower_fmod(Lowering& lowering, const Node& node) {
  if (!graph::is_float(result_dtype(node)) &&
      (!by_nonzero_integer(node) || result_dtype(node) == DType::kBool))
    return false;
  return lower_binary(lowering, node, result_dtype(node), binary<K::kFmod>);
}

ExprRef integer_power(ExprPool& pool, ExprRef x, int64_t exponent) {
  return pool.binary(K::kPow, x, pool.integer(exponent, x->dtype));
}

// The exponents that eager computes without pow().
ExprRef float_power(ExprPool& pool, ExprRef x, double exponent) {
  auto inverse = [&](ExprRef y) { return pool.binary(K::kDiv, pool.constant(y->dtype, 1), y); };
  if (exponent == 0) return pool.constant(x->dtype, 1);
  if (exponent == 1) return x;
  if (exponent == 0.5) return pool.unary(K::kSqrt, x);
  if (exponent == -0.5) return pool.unary(K::kRsqrt, x);
  if (exponent == 2) return pool.mul(x, x);
  if (exponent == 3) return pool.mul(pool.mul(x, x), x);
  if (exponent == -1) return inverse(x);
  if (exponent == -2) return inverse(pool.mul(x, x));
  return pool.binary(K::kPow, x, pool.constant(x->dtype, exponent));
}

bool lower_pow_number(Lowering& lowering, const Node& node) {
  const DType dtype = result_dtype(node);
  const graph::Argument& number = node.args().at(1);
  if (graph::scalar_kind(number) == graph::DTypeKind::kComplex || dtype == DType::kBool)
    return false;
  const double exponent = graph::scalar_to_double(number);
  if (!graph::is_float(dtype)) {
    auto* integer = std::get_if<sym::Int>(&number);
    if (!integer || integer->constant() < 0) return false;
    const int64_t power = integer->constant();
    if (wrap(dtype, power) != power) return false;
    return define_pointwise(lowering, node, {operand_arg(node, 0)}, dtype, {2, false},
                            [power](ExprPool& pool, std::span<const ExprRef> x) {
                              if (power == 2) return pool.mul(x[0], x[0]);
                              return integer_power(pool, x[0], power);
                            });
  }
  // Where eager rounds between the steps of a half, one step only.
  const bool one_step = exponent == 2 || exponent == 1 || exponent == -1;
  if (dtype != compute_dtype(dtype) && !one_step) return false;
  const bool special =
      one_step || exponent == 0 || std::abs(exponent) == 0.5 || exponent == 3 || exponent == -2;
  return define_pointwise(lowering, node, {operand_arg(node, 0)}, dtype, {2, !special},
                          [exponent](ExprPool& pool, std::span<const ExprRef> x) {
                            return float_power(pool, x[0], exponent);
                          });
}

bool lower_pow(Lowering& lowering, const Node& node) {
  if (!graph::is_float(result_dtype(node))) return false;  // negative exponents raise
  return lower_binary(lowering, node, result_dtype(node), binary<K::kPow>, true);
}

template <K kind>
bool extremum(Lowering& lowering, const Node& node) {
  return lower_binary(lowering, node, result_dtype(node), [](ExprPool& pool, ExprRef a, ExprRef b) {
    if (a->dtype != DType::kBool) return pool.binary(kind, a, b);
    return pool.binary(kind == K::kMax ? K::kOr : K::kAnd, a, b);
  });
}

// fmax, fmin: the other operand where one is NaN.
template <K kind>
bool number_extremum(Lowering& lowering, const Node& node) {
  return lower_binary(lowering, node, result_dtype(node), [](ExprPool& pool, ExprRef a, ExprRef b) {
    if (a->dtype == DType::kBool) return pool.binary(kind == K::kMax ? K::kOr : K::kAnd, a, b);
    ExprRef both = pool.binary(kind, a, b);
    if (!graph::is_float(a->dtype)) return both;
    return pool.where(pool.unary(K::kIsNan, a), b, pool.where(pool.unary(K::kIsNan, b), a, both));
  });
}

enum class Bounds { kBoth, kLow, kHigh };
template <Bounds bounds>
bool lower_clamp(Lowering& lowering, const Node& node) {
  if (result_dtype(node) == DType::kBool) return false;
  const bool has_lo = bounds != Bounds::kHigh && !graph::is_none(node, 1);
  const int hi_at = bounds == Bounds::kBoth ? 2 : 1;
  const bool has_hi = bounds != Bounds::kLow && !graph::is_none(node, hi_at);
  std::vector<Operand> operands = {operand_arg(node, 0)};
  if (has_lo) operands.push_back(operand_arg(node, 1));
  if (has_hi) operands.push_back(operand_arg(node, hi_at));
  return define_pointwise(lowering, node, operands, result_dtype(node), {2, false},
                          [has_lo, has_hi](ExprPool& pool, std::span<const ExprRef> x) {
                            return clamp(pool, x[0], has_lo ? x[1] : nullptr,
                                         has_hi ? x.back() : nullptr);
                          });
}

bool lower_select(Lowering& lowering, const Node& node, Value* condition, Operand yes, Operand no) {
  if (condition->type().dtype != DType::kBool) return false;
  const DType dtype = compute_dtype(result_dtype(node));
  ExprRef numbers[2] = {nullptr, nullptr};
  std::vector<Value*> values = {condition};
  for (int i = 0; i < 2; ++i) {
    const Operand& operand = i == 0 ? yes : no;
    if (operand.value) {
      values.push_back(operand.value);
    } else if (!(numbers[i] = number_as(lowering.pool(), operand.number, result_dtype(node)))) {
      return false;
    }
  }
  auto at = [&lowering, condition, yes, no, dtype, a = numbers[0], b = numbers[1],
             result = result_dtype(node)](IndexView index) {
    ExprPool& pool = lowering.pool();
    auto get = [&](Value* value) {
      return pool.cast(lowering.broadcast_element(value, index), dtype);
    };
    return pool.cast(pool.where(lowering.broadcast_element(condition, index),
                                a ? a : get(yes.value), b ? b : get(no.value)),
                     result);
  };
  lowering.define(node, 0, lowering.traits_over(node, values, 1), at);
  return true;
}

bool lower_where(Lowering& lowering, const Node& node) {
  return lower_select(lowering, node, graph::tensor_arg(node, 0), operand_arg(node, 1),
                      operand_arg(node, 2));
}
bool lower_masked_fill(Lowering& lowering, const Node& node) {
  return lower_select(lowering, node, graph::tensor_arg(node, 1), operand_arg(node, 2),
                      operand_arg(node, 0));
}

bool is_single_or_double(const Node& node) {
  return result_dtype(node) == DType::kFloat32 || result_dtype(node) == DType::kFloat64;
}

bool lower_lerp(Lowering& lowering, const Node& node) {
  if (!is_single_or_double(node)) return false;
  return define_pointwise(
      lowering, node, {operand_arg(node, 0), operand_arg(node, 1), operand_arg(node, 2)},
      result_dtype(node), {8, false}, [](ExprPool& pool, std::span<const ExprRef> x) {
        ExprRef weight = x[2], range = pool.binary(K::kSub, x[1], x[0]);
        ExprRef rest = pool.binary(K::kSub, pool.constant(weight->dtype, 1), weight);
        ExprRef small =
            pool.binary(K::kLt, pool.unary(K::kAbs, weight), pool.constant(weight->dtype, 0.5));
        return pool.where(small, pool.add(x[0], pool.mul(weight, range)),
                          pool.binary(K::kSub, x[1], pool.mul(range, rest)));
      });
}

template <K kind>
bool lower_addc(Lowering& lowering, const Node& node) {
  if (!is_single_or_double(node)) return false;
  ExprRef factor = lowering.pool().constant(result_dtype(node), 1);
  if (!graph::is_none(node, 3))
    factor = number_as(lowering.pool(), node.args()[3], result_dtype(node));
  if (!factor) return false;
  return define_pointwise(
      lowering, node, {operand_arg(node, 0), operand_arg(node, 1), operand_arg(node, 2)},
      result_dtype(node), {3, false}, [factor](ExprPool& pool, std::span<const ExprRef> x) {
        return pool.add(x[0], pool.binary(kind, pool.mul(factor, x[1]), x[2]));
      });
}

}  // namespace

Handler pointwise_handler(OpKind kind) {
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
    case OpKind::ksquare:
      return lower_square;
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
    case OpKind::kclamp:
    case OpKind::kclamp_Tensor:
      return lower_clamp<Bounds::kBoth>;
    case OpKind::kclamp_min:
    case OpKind::kclamp_min_Tensor:
      return lower_clamp<Bounds::kLow>;
    case OpKind::kclamp_max:
    case OpKind::kclamp_max_Tensor:
      return lower_clamp<Bounds::kHigh>;
    case OpKind::kadd_Tensor:
    case OpKind::kadd_Scalar:
      return lower_sum<Sum::kAdd>;
    case OpKind::ksub_Tensor:
    case OpKind::ksub_Scalar:
      return lower_sum<Sum::kSubtract>;
    case OpKind::krsub_Tensor:
    case OpKind::krsub_Scalar:
      return lower_sum<Sum::kSubtractFrom>;
    case OpKind::kmul_Tensor:
    case OpKind::kmul_Scalar:
      return lower_mul;
    case OpKind::kdiv_Tensor:
    case OpKind::kdiv_Scalar:
      return lower_true_div;
    case OpKind::kdiv_Tensor_mode:
    case OpKind::kdiv_Scalar_mode:
      return lower_div_mode;
    case OpKind::kpow_Tensor_Scalar:
      return lower_pow_number;
    case OpKind::kpow_Tensor_Tensor:
    case OpKind::kpow_Scalar:
      return lower_pow;
    case OpKind::kremainder_Tensor:
    case OpKind::kremainder_Scalar:
      return lower_remainder;
    case OpKind::kfmod_Tensor:
    case OpKind::kfmod_Scalar:
      return lower_fmod;
    case OpKind::kfloor_divide:
    case OpKind::kfloor_divide_Scalar:
      return lower_floor_divide;
    case OpKind::kmaximum:
      return extremum<K::kMax>;
    case OpKind::kminimum:
      return extremum<K::kMin>;
    case OpKind::kfmax:
      return number_extremum<K::kMax>;
    case OpKind::kfmin:
      return number_extremum<K::kMin>;
    case OpKind::katan2:
      return [](Lowering& lowering, const Node& node) {
        return lower_binary(lowering, node, result_dtype(node), binary<K::kAtan2>, true);
      };
    case OpKind::keq_Tensor:
    case OpKind::keq_Scalar:
      return comparison<K::kEq>;
    case OpKind::kne_Tensor:
    case OpKind::kne_Scalar:
      return comparison<K::kNe>;
    case OpKind::klt_Tensor:
    case OpKind::klt_Scalar:
      return comparison<K::kLt>;
    case OpKind::kle_Tensor:
    case OpKind::kle_Scalar:
      return comparison<K::kLe>;
    case OpKind::kgt_Tensor:
    case OpKind::kgt_Scalar:
      return swapped_comparison<K::kLt>;
    case OpKind::kge_Tensor:
    case OpKind::kge_Scalar:
      return swapped_comparison<K::kLe>;
    case OpKind::klogical_and:
      return logical<K::kAnd>;
    case OpKind::klogical_or:
      return logical<K::kOr>;
    case OpKind::klogical_xor:
      return logical<K::kXor>;
    case OpKind::kbitwise_and_Tensor:
    case OpKind::kbitwise_and_Scalar:
      return bitwise<K::kAnd>;
    case OpKind::kbitwise_or_Tensor:
    case OpKind::kbitwise_or_Scalar:
      return bitwise<K::kOr>;
    case OpKind::kbitwise_xor_Tensor:
    case OpKind::kbitwise_xor_Scalar:
      return bitwise<K::kXor>;
    case OpKind::kbitwise_left_shift_Tensor:
      return bitwise<K::kShl>;
    case OpKind::kbitwise_right_shift_Tensor:
      return bitwise<K::kShr>;
    case OpKind::kwhere_self:
      return lower_where;
    case OpKind::kmasked_fill_Scalar:
    case OpKind::kmasked_fill_Tensor:
      return lower_masked_fill;
    case OpKind::klerp_Scalar:
    case OpKind::klerp_Tensor:
      return lower_lerp;
    case OpKind::kaddcmul:
      return lower_addc<K::kMul>;
    case OpKind::kaddcdiv:
      return lower_addc<K::kDiv>;
    default:
      return nullptr;  // other families, or an extern call
  }
}

}  // namespace braze::loop::lowering
