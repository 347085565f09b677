#include "codegen/cuda/reductions.h"

#include <algorithm>

#include "codegen/cuda/operators.h"

namespace braze::codegen::cuda {
namespace {

using loop::ExprKind;
using loop::ExprRef;
using loop::Statement;

bool is_number_of_halves(ExprRef x) {
  if (x->kind == ExprKind::kWhere)
    return is_number_of_halves(x->args[1]) && is_number_of_halves(x->args[2]);
  return x->is_constant() || (x->kind == ExprKind::kCast && graph::is_half(x->args[0]->dtype));
}

}  // namespace

bool finds_place(const Statement& s) {
  return s.op == loop::ReduceOp::kArgMax || s.op == loop::ReduceOp::kArgMin;
}

bool adds_product(const Statement& s) {
  const bool sums = s.is_part() || (s.is_reduction() && s.op == loop::ReduceOp::kSum);
  return sums && s.value->kind == ExprKind::kMul &&
         (s.value->dtype == graph::DType::kFloat32 || s.value->dtype == graph::DType::kFloat64);
}

bool is_of_distance_from_maximum(const Nest& nest, ExprRef expr) {
  if (expr->kind != ExprKind::kExp || expr->args[0]->kind != ExprKind::kSub) return false;
  const ExprRef from = expr->args[0]->args[0], top = expr->args[0]->args[1];
  return top->kind == ExprKind::kReduced &&
         std::ranges::any_of(nest.kernel->body, [&](const Statement& s) {
           return s.is_reduction() && s.reduced == top->ival && s.value == from &&
                  s.op == loop::ReduceOp::kMax;
         });
}

bool sums_exponentials_of_halves(const Nest& nest, const Statement& s) {
  if (!s.is_reduction() || s.op != loop::ReduceOp::kSum ||
      !is_of_distance_from_maximum(nest, s.value))
    return false;
  const ExprRef from = s.value->args[0]->args[0];
  return !from->is_constant() && is_number_of_halves(from);
}

bool takes_packs(const Nest& nest, const Statement& s) {
  return s.is_reduction() && nest.shape == Shape::kRows &&
         (s.op == loop::ReduceOp::kWelford || finds_place(s) || nest.is_soft_maximum(s));
}

std::string type_of_accumulator(const Nest& nest, const Statement& s, bool narrow) {
  if (!nest.is_soft_maximum(s)) return accumulator_of(s, finds_place(s) && narrow ? "i32" : "i64");
  const bool of_halves =
      s.value->kind == ExprKind::kCast && graph::is_half(s.value->args[0]->dtype);
  const bool whole = std::ranges::any_of(nest.soft_sums, [&](const auto& joined) {
    return joined.second == &s && joined.first->value->args[0]->args[1]->kind == ExprKind::kWhere;
  });
  return "SoftSum<" + type_of(s.accumulate) + (of_halves ? ", true" : ", false") +
         (whole ? ", true>" : ", false>");
}

}  // namespace braze::codegen::cuda
