#include "passes/uniform.h"

#include <cmath>

#include "graph/arguments.h"
#include "graph/infer/promotion.h"
#include "graph/op_kind.h"

namespace braze::passes {

using graph::Argument;
using graph::DType;
using graph::Node;
using graph::OpKind;
using graph::Value;

namespace {

constexpr double kExactInteger = 9007199254740992.0;  // 2^53

// The number as an element of that dtype; empty where it does not fit or the dtype is not handled.
std::optional<double> in_dtype(double value, DType dtype) {
  if (dtype == DType::kFloat32) return static_cast<float>(value);
  if (dtype == DType::kFloat64) return value;
  if (dtype == DType::kBool) return value != 0 ? 1 : 0;
  if (!is_integral(dtype, false) || !(std::abs(value) < kExactInteger)) return std::nullopt;
  value = std::trunc(value);
  const double bits = 8.0 * static_cast<double>(size_of(dtype));
  const bool is_signed = dtype != DType::kUInt8;
  const double high = std::exp2(is_signed ? bits - 1 : bits), low = is_signed ? -high : 0;
  if (value < low || value >= high) return std::nullopt;
  return value;
}

Argument as_argument(double value, DType dtype) {
  if (dtype == DType::kBool) return value != 0;
  if (is_integral(dtype, false)) return sym::Int(static_cast<int64_t>(value));
  return value;
}

// a op b in the dtype `compute`.
std::optional<double> arithmetic(OpKind kind, double a, double b, DType compute) {
  const bool real = is_float(compute);
  switch (kind) {
    case OpKind::kadd_Tensor:
    case OpKind::kadd_Scalar:
      return compute == DType::kBool ? static_cast<double>(a != 0 || b != 0) : a + b;
    case OpKind::ksub_Tensor:
    case OpKind::ksub_Scalar:
      return a - b;
    case OpKind::krsub_Tensor:
    case OpKind::krsub_Scalar:
      return b - a;
    case OpKind::kmul_Tensor:
    case OpKind::kmul_Scalar:
      return a * b;
    case OpKind::kdiv_Tensor:
    case OpKind::kdiv_Scalar:
      return real ? std::optional<double>(a / b) : std::nullopt;
    case OpKind::keq_Tensor:
    case OpKind::keq_Scalar:
      return a == b;
    case OpKind::kne_Tensor:
    case OpKind::kne_Scalar:
      return a != b;
    case OpKind::klt_Tensor:
    case OpKind::klt_Scalar:
      return a < b;
    case OpKind::kle_Tensor:
    case OpKind::kle_Scalar:
      return a <= b;
    case OpKind::kgt_Tensor:
    case OpKind::kgt_Scalar:
      return a > b;
    case OpKind::kge_Tensor:
    case OpKind::kge_Scalar:
      return a >= b;
    default:
      return std::nullopt;
  }
}

bool has_alpha(OpKind kind) {
  return kind == OpKind::kadd_Tensor || kind == OpKind::kadd_Scalar ||
         kind == OpKind::ksub_Tensor || kind == OpKind::ksub_Scalar ||
         kind == OpKind::krsub_Tensor || kind == OpKind::krsub_Scalar;
}

std::optional<double> binary(const Node& node) {
  const auto& args = node.args();
  const std::optional<double> a = uniform_value(args[0]), b = uniform_value(args[1]);
  if (!a || !b) return std::nullopt;
  if (has_alpha(node.op().kind) && args.size() > 2 && !graph::is_number(args[2], 1))
    return std::nullopt;
  DType compute = graph::result_type(std::span(args).first(2));
  const bool divides =
      node.op().kind == OpKind::kdiv_Tensor || node.op().kind == OpKind::kdiv_Scalar;
  if (divides && is_integral(compute, true)) compute = DType::kFloat32;
  const std::optional<double> x = in_dtype(*a, compute), y = in_dtype(*b, compute);
  if (!x || !y) return std::nullopt;
  // Two f32 operands computed in double and rounded once are rounded correctly.
  const std::optional<double> result = arithmetic(node.op().kind, *x, *y, compute);
  if (!result) return std::nullopt;
  return in_dtype(*result, node.result()->type().dtype);
}

// Whether each element of the result is one of argument 0.
bool has_operands_elements(const Node& node) {
  return node.op().has(graph::kCopies) || (node.op().view && node.op().kind != OpKind::kview_dtype);
}

std::optional<double> element_of_operand(const Node& node) {
  const std::optional<double> value = uniform_value(node.args()[0]);
  // What a NaN or infinity becomes as an integer is the machine's choice.
  const bool is_exact =
      value && (std::isfinite(*value) || !is_integral(node.result()->type().dtype, true));
  return is_exact ? value : std::nullopt;
}

}  // namespace

std::optional<double> uniform_value(const Argument& argument) {
  if (graph::is_scalar(argument)) {
    if (graph::scalar_kind(argument) == graph::DTypeKind::kComplex) return std::nullopt;
    if (auto* integer = std::get_if<sym::Int>(&argument)) {
      if (!integer->is_constant()) return std::nullopt;
      const auto number = static_cast<double>(integer->constant());
      return std::abs(number) < kExactInteger ? std::optional(number) : std::nullopt;
    }
    return graph::scalar_to_double(argument);
  }
  auto* value = std::get_if<Value*>(&argument);
  if (!value || !(*value)->producer()) return std::nullopt;
  const Node& producer = *(*value)->producer();
  if (producer.op().kind != OpKind::kfull) return std::nullopt;
  const std::optional<double> number = uniform_value(producer.args().at(1));
  return number ? in_dtype(*number, (*value)->type().dtype) : std::nullopt;
}

std::optional<Argument> fold_to_uniform(const Node& node) {
  if (node.args().empty() || node.results().size() != 1) return std::nullopt;
  const DType dtype = node.result()->type().dtype;
  std::optional<double> value;
  switch (node.op().kind) {
    case OpKind::kneg:
      value = uniform_value(node.args()[0]);
      if (value) value = is_integral(dtype, true) && *value == 0 ? 0 : -*value;
      break;
    case OpKind::klogical_not:
      value = uniform_value(node.args()[0]);
      if (value) value = *value == 0;
      break;
    case OpKind::kwhere_self: {
      const std::optional<double> condition = uniform_value(node.args()[0]);
      if (condition) value = uniform_value(node.args()[*condition != 0 ? 1 : 2]);
      break;
    }
    default:
      if (has_operands_elements(node))
        value = element_of_operand(node);
      else if (node.op().pointwise && node.args().size() >= 2)
        value = binary(node);
  }
  if (value) value = in_dtype(*value, dtype);
  if (!value) return std::nullopt;
  return as_argument(*value, dtype);
}

}  // namespace braze::passes
