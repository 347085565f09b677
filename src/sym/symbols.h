// The symbols that an expression is made of.
#pragma once

#include "sym/condition.h"
#include "sym/expr.h"

namespace braze::sym {

// Calls `visit(int number)` for each place where a symbol stands in the expression.
template <class Visit>
void for_each_symbol(Int value, const Visit& visit) {
  if (value.is_constant()) return;
  const Expr* e = value.expr();
  if (e->kind == ExprKind::kSymbol) return visit(e->symbol);
  for_each_symbol(e->a, visit);
  for_each_symbol(e->b, visit);
  for (const auto& [term, coefficient] : e->terms) for_each_symbol(Int(term), visit);
}

template <class Visit>
void for_each_symbol(const Condition& condition, const Visit& visit) {
  for_each_symbol(condition.a, visit);
  for_each_symbol(condition.b, visit);
}

}  // namespace braze::sym
