#include "loop/linear_form.h"

#include <algorithm>
#include <unordered_set>

#include "loop/scalar.h"
#include "sym/facts.h"

namespace braze::loop {
namespace {

int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t wrapping_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
sym::Int plus(sym::Int a, sym::Int b) {
  if (!a.is_constant() || !b.is_constant()) return a + b;
  return wrapping_add(a.constant(), b.constant());
}
bool is_sum(ExprRef e) { return e->kind == ExprKind::kAdd && e->dtype == DType::kInt64; }
bool is_scaled(ExprRef e) {
  return e->kind == ExprKind::kMul && e->dtype == DType::kInt64 && is_size(e->args[1]);
}
bool is_positive_size(ExprRef e) { return is_size(e) && e->range.lo > 0; }

}  // namespace

sym::Int times(sym::Int a, sym::Int b) {
  if (!a.is_constant() || !b.is_constant()) return a * b;
  return wrapping_mul(a.constant(), b.constant());
}

bool is_op_by_size(ExprRef e, ExprKind kind) {
  return e->kind == kind && e->dtype == DType::kInt64 && is_positive_size(e->args[1]);
}

bool is_bounded(Range range) { return range.lo > -kBound && range.hi < kBound; }

bool before(ExprRef a, ExprRef b) {
  bool a_axis = a->kind == ExprKind::kAxis, b_axis = b->kind == ExprKind::kAxis;
  if (a_axis != b_axis) return a_axis;
  if (a_axis && a->ival != b->ival) return a->ival < b->ival;
  return a->hash != b->hash ? a->hash < b->hash : a->id < b->id;
}

void collect(ExprRef e, sym::Int scale, LinearForm& form) {
  for (; is_sum(e); e = e->args[0]) collect(e->args[1], scale, form);
  if (is_size(e)) {
    form.constant = plus(form.constant, times(scale, size_value(e)));
  } else if (is_scaled(e)) {
    form.terms.push_back({e->args[0], times(scale, size_value(e->args[1]))});
  } else {
    form.terms.push_back({e, scale});
  }
}

void sort_and_merge(LinearForm& form) {
  auto& terms = form.terms;
  std::ranges::sort(terms, [](const auto& a, const auto& b) { return before(a.atom, b.atom); });
  size_t kept = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (kept > 0 && terms[kept - 1].atom == terms[i].atom) {
      terms[kept - 1].coefficient = plus(terms[kept - 1].coefficient, terms[i].coefficient);
    } else {
      if (kept > 0 && terms[kept - 1].coefficient == sym::Int(0)) --kept;
      terms[kept++] = terms[i];
    }
  }
  if (kept > 0 && terms[kept - 1].coefficient == sym::Int(0)) --kept;
  terms.resize(kept);
}

LinearForm linear_form(ExprRef expr) {
  LinearForm form;
  collect(expr, 1, form);
  sort_and_merge(form);
  return form;
}

Bounds bounds_of(ExprRef expr) {
  if (is_size(expr)) return {size_value(expr), size_value(expr)};
  if (expr->kind == ExprKind::kAxis) return {sym::Int(0), expr->size - 1};
  if (is_op_by_size(expr, ExprKind::kMod))
    return {sym::Int(0), size_value(expr->args[1]) - sym::Int(1)};
  if (is_op_by_size(expr, ExprKind::kFloorDiv)) {
    Bounds bounds = bounds_of(expr->args[0]);
    for (std::optional<sym::Int>* end : {&bounds.lo, &bounds.hi})
      if (*end) *end = sym::floordiv(**end, size_value(expr->args[1]));
    return bounds;
  }
  if (!is_sum(expr) && !is_scaled(expr)) {
    Bounds bounds;
    if (expr->range.lo > -kUnknownExtent) bounds.lo = expr->range.lo;
    if (expr->range.hi < kUnknownExtent) bounds.hi = expr->range.hi;
    return bounds;
  }
  const LinearForm form = linear_form(expr);
  Bounds sum{form.constant, form.constant};
  for (const auto& [atom, coefficient] : form.terms) {
    const Bounds bounds = bounds_of(atom);
    const bool falls = sym::known_at_most(coefficient, 0);
    if (!falls && !sym::known_at_least(coefficient, 0)) return {};
    const auto add = [factor = coefficient](std::optional<sym::Int>& to,
                                            const std::optional<sym::Int>& end) {
      if (to && end)
        to = *to + factor * *end;
      else
        to.reset();
    };
    add(sum.lo, falls ? bounds.hi : bounds.lo);
    add(sum.hi, falls ? bounds.lo : bounds.hi);
  }
  return sum;
}

bool lies_within(ExprRef expr, sym::Int size) {
  if (size.is_constant() && expr->range.lo >= 0 && expr->range.hi < size.constant()) return true;
  if (!expr->symbolic && size.is_constant()) return false;
  const Bounds bounds = bounds_of(expr);
  return bounds.lo && bounds.hi && sym::known_at_least(*bounds.lo, 0) &&
         sym::known_less(*bounds.hi, size);
}

bool depends_on(ExprRef expr, int axis) {
  std::unordered_set<ExprRef> seen;
  std::vector<ExprRef> stack = {expr};
  while (!stack.empty()) {
    ExprRef e = stack.back();
    stack.pop_back();
    if (e->kind == ExprKind::kAxis && e->ival == axis) return true;
    for (ExprRef arg : e->args)
      if (!arg->is_constant() && seen.insert(arg).second) stack.push_back(arg);
  }
  return false;
}

bool IndexInfo::depends_on(int axis) const { return loop::depends_on(index_, axis); }

std::optional<sym::Int> IndexInfo::stride(int axis) const {
  sym::Int stride = 0;
  for (const auto& [atom, coefficient] : linear_form(index_).terms) {
    if (atom->kind == ExprKind::kAxis) {
      if (atom->ival == axis) stride = coefficient;
    } else if (loop::depends_on(atom, axis)) {
      return std::nullopt;
    }
  }
  return stride;
}

}  // namespace braze::loop
