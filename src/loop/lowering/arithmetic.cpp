// Arithmetic of two operands, powers.
#include <cmath>
#include <limits>
#include <optional>

#include "graph/op_kind.h"
#include "loop/lowering/pointwise.h"
#include "loop/scalar.h"

namespace braze::loop::lowering {
namespace {

using graph::OpKind;
using K = ExprKind;

// By the node's own device: kernels for a GPU stand beside arithmetic of the call's numbers on the
// CPU, which is as Python's.
bool is_on_gpu(const Node& node) {
  return node.result()->type().device.type == graph::Device::Type::kCUDA;
}

// What eager makes of a number that is added or subtracted. PyTorch's kernels for the CPU convert
// it to the dtype of the tensor, those for GPUs to the one that they compute in.
BesideHalves term(const Node& node) {
  return is_on_gpu(node) ? BesideHalves::kSingle : BesideHalves::kRounded;
}

// a + alpha*b, a - alpha*b, b - alpha*a.
enum class Sum { kAdd, kSubtract, kSubtractFrom };
template <Sum sum>
bool lower_sum(Lowering& lowering, const Node& node) {
  const DType dtype = result_dtype(node);
  const bool plain = graph::is_none(node, 2) || graph::is_number(node.args()[2], 1);
  if (dtype == DType::kBool && (!plain || sum != Sum::kAdd)) return false;
  const BesideHalves halves = plain ? term(node) : BesideHalves::kUnknown;
  Operand a = operand_arg(node, 0, halves), b = operand_arg(node, 1, halves);
  if (sum == Sum::kSubtractFrom) std::swap(a, b);
  ExprRef alpha = nullptr;
  if (!plain &&
      !(alpha = number_as(lowering.pool(), node.args()[2], dtype,
                          is_on_gpu(node) ? BesideHalves::kSingle : BesideHalves::kUnknown)))
    return false;
  return define_pointwise(lowering, node, {a, b}, dtype, {plain ? 1 : 2, false},
                          [alpha](ExprPool& pool, std::span<const ExprRef> x) {
                            if (x[0]->dtype == DType::kBool) return pool.binary(K::kOr, x[0], x[1]);
                            ExprRef second = alpha ? pool.mul(x[1], alpha) : x[1];
                            return pool.binary(sum == Sum::kAdd ? K::kAdd : K::kSub, x[0], second);
                          });
}

bool lower_mul(Lowering& lowering, const Node& node) {
  return lower_binary(
      lowering, node, result_dtype(node),
      [](ExprPool& pool, ExprRef a, ExprRef b) {
        return pool.binary(a->dtype == DType::kBool ? K::kAnd : K::kMul, a, b);
      },
      /*heavy=*/false, BesideHalves::kSingle);
}

// The inverse of a number that PyTorch's kernels for GPUs multiply by where they are to divide by
// the number: of its double, rounded to what they compute in.
std::optional<double> inverse_on_gpu(const Node& node) {
  const graph::Argument& divisor = node.args().at(1);
  if (!is_on_gpu(node) || !graph::is_float(result_dtype(node))) return std::nullopt;
  if (auto* number = std::get_if<double>(&divisor)) return 1 / *number;
  auto* integer = std::get_if<sym::Int>(&divisor);
  if (!integer || !integer->is_constant()) return std::nullopt;
  return 1 / static_cast<double>(integer->constant());
}

bool lower_true_div(Lowering& lowering, const Node& node) {
  const DType dtype = result_dtype(node);
  if (const auto inverse = inverse_on_gpu(node)) {
    const Operand factor{nullptr, graph::Argument(*inverse), BesideHalves::kSingle};
    return define_pointwise(
        lowering, node, {operand_arg(node, 0), factor}, dtype, {1, false},
        [](ExprPool& pool, std::span<const ExprRef> x) { return pool.mul(x[0], x[1]); });
  }
  return lower_binary(lowering, node, dtype, binary<K::kDiv>, /*heavy=*/false,
                      BesideHalves::kSingle);
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
  // Eager has the exponent in double precision, where a very small one is not zero.
  if (exponent != 0 && static_cast<float>(exponent) == 0 && compute_dtype(dtype) == DType::kFloat32)
    return false;
  // Eager rounds halves after each step, but for cubes of float16 on CPUs: formulas of one step
  // alone give the same.
  const bool one_step = exponent == 2 || exponent == 1 || exponent == -1;
  if (dtype != compute_dtype(dtype) && exponent == 3) {
    const graph::Device::Type device = node.result()->type().device.type;
    const bool is_rounded = device != graph::Device::Type::kCPU || dtype != DType::kFloat16;
    return define_pointwise(lowering, node, {operand_arg(node, 0)}, dtype, {2, false},
                            [dtype, is_rounded](ExprPool& pool, std::span<const ExprRef> x) {
                              ExprRef square = pool.mul(x[0], x[0]);
                              if (is_rounded)
                                square = pool.cast(pool.cast(square, dtype), x[0]->dtype);
                              return pool.mul(square, x[0]);
                            });
  }
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

// x log(y): 0 where x is 0, unless y is not a number.
ExprRef x_log_y(ExprPool& pool, ExprRef x, ExprRef y) {
  const auto number = [&](double value) { return pool.constant(x->dtype, value); };
  const ExprRef product = pool.mul(x, pool.unary(K::kLog, y));
  return pool.where(pool.unary(K::kIsNan, y), number(std::numeric_limits<double>::quiet_NaN()),
                    pool.where(pool.binary(K::kEq, x, number(0)), number(0), product));
}

}  // namespace

Handler arithmetic_handler(OpKind kind) {
  switch (kind) {
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
    case OpKind::katan2:
      return [](Lowering& lowering, const Node& node) {
        return lower_binary(lowering, node, result_dtype(node), binary<K::kAtan2>, true);
      };
    case OpKind::kxlogy_Tensor:
      return [](Lowering& lowering, const Node& node) {
        return lower_binary(lowering, node, result_dtype(node), x_log_y, true);
      };
    default:
      return nullptr;  // other families, or an extern call
  }
}

}  // namespace braze::loop::lowering
