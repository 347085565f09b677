#include "loop/lowering/pointwise.h"

#include <cmath>

#include "loop/scalar.h"

namespace braze::loop::lowering {

using K = ExprKind;

Operand operand_arg(const Node& node, int i, BesideHalves beside_halves) {
  const graph::Argument& argument = node.args().at(i);
  if (auto* value = std::get_if<Value*>(&argument)) return {*value, {}, beside_halves};
  return {nullptr, argument, beside_halves};
}

namespace {

// A float, or an integer beside floats.
ExprRef float_number(ExprPool& pool, double value, DType dtype, BesideHalves beside_halves) {
  const DType compute = compute_dtype(dtype);
  const double rounded = round_to(dtype, value);
  if (dtype != compute && rounded != value && !std::isnan(value)) {
    if (beside_halves == BesideHalves::kUnknown) return nullptr;
    if (beside_halves == BesideHalves::kSingle)
      return pool.constant(compute, round_to(compute, value));
    if (std::isinf(rounded)) return nullptr;  // eager refuses some of these
  }
  return pool.constant(compute, rounded);
}

}  // namespace

ExprRef number_as(ExprPool& pool, const graph::Argument& number, DType dtype,
                  BesideHalves beside_halves) {
  if (auto* integer = std::get_if<sym::Int>(&number); integer && integer->is_constant()) {
    int64_t value = integer->constant();
    if (!graph::is_float(dtype))
      return wrap(dtype, value) == value ? pool.integer(value, dtype) : nullptr;
    return float_number(pool, static_cast<double>(value), dtype, beside_halves);
  }
  if (auto* symbol = std::get_if<sym::Int>(&number)) {
    const bool exact =
        dtype == DType::kInt64 || dtype == DType::kFloat32 || dtype == DType::kFloat64;
    return exact ? pool.cast(pool.index(*symbol), dtype) : nullptr;
  }
  if (auto* flag = std::get_if<bool>(&number)) return pool.number(compute_dtype(dtype), *flag);
  auto* value = std::get_if<double>(&number);
  if (!value || !graph::is_float(dtype)) return nullptr;
  return float_number(pool, *value, dtype, beside_halves);
}

bool define_pointwise(Lowering& lowering, const Node& node, std::vector<Operand> operands,
                      DType dtype, Cost cost, Formula formula) {
  std::vector<ExprRef> numbers;
  std::vector<Value*> values;
  for (const Operand& operand : operands) {
    ExprRef number = nullptr;
    if (operand.value) {
      values.push_back(operand.value);
    } else if (!(number = number_as(lowering.pool(), operand, dtype))) {
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

bool lower_unary(Lowering& lowering, const Node& node, Unary formula, bool heavy) {
  return define_pointwise(
      lowering, node, {operand_arg(node, 0)}, result_dtype(node), {1, heavy},
      [formula](ExprPool& pool, std::span<const ExprRef> x) { return formula(pool, x[0]); });
}

bool lower_binary(Lowering& lowering, const Node& node, DType dtype, Binary formula, bool heavy,
                  BesideHalves beside_halves) {
  return define_pointwise(
      lowering, node, {operand_arg(node, 0, beside_halves), operand_arg(node, 1, beside_halves)},
      dtype, {1, heavy},
      [formula](ExprPool& pool, std::span<const ExprRef> x) { return formula(pool, x[0], x[1]); });
}

}  // namespace braze::loop::lowering
