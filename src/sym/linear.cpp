#include "sym/linear.h"

#include <algorithm>

namespace braze::sym {
namespace {

int order_of(int64_t a, int64_t b) { return a < b ? -1 : a > b ? 1 : 0; }

}  // namespace

int compare(Int a, Int b) {
  if (a.is_constant() != b.is_constant()) return a.is_constant() ? -1 : 1;
  return a.is_constant() ? order_of(a.constant(), b.constant()) : compare(a.expr(), b.expr());
}

int compare(const Expr* a, const Expr* b) {
  if (a == b) return 0;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  if (int order = order_of(a->symbol, b->symbol)) return order;
  for (size_t i = 0; i < a->terms.size() && i < b->terms.size(); ++i) {
    if (int order = compare(a->terms[i].first, b->terms[i].first)) return order;
    if (int order = order_of(a->terms[i].second, b->terms[i].second)) return order;
  }
  if (a->terms.size() != b->terms.size()) return a->terms.size() < b->terms.size() ? -1 : 1;
  if (int order = order_of(a->constant, b->constant)) return order;
  if (int order = compare(a->a, b->a)) return order;
  return compare(a->b, b->b);
}

void Linear::add_term(const Expr* term, int64_t coefficient) {
  size_t place = terms.size();  // terms come mostly in their order
  while (place > 0) {
    const int order = compare(terms[place - 1].first, term);
    if (order < 0) break;
    --place;
    if (order > 0) continue;
    terms[place].second += coefficient;
    return;
  }
  terms.emplace(terms.begin() + static_cast<std::ptrdiff_t>(place), term, coefficient);
}

void Linear::add(Int value, int64_t scale) {
  if (value.is_constant()) {
    constant += scale * value.constant();
  } else if (value.expr()->kind == ExprKind::kSum) {
    constant += scale * value.expr()->constant;
    terms.reserve(terms.size() + value.expr()->terms.size());
    for (auto& [term, coefficient] : value.expr()->terms) add_term(term, scale * coefficient);
  } else {
    add_term(value.expr(), scale);
  }
}

Linear linear(Int value) {
  Linear form;
  form.add(value, 1);
  return form;
}

Int from_linear(ExprArena& arena, const Linear& form) {
  Expr sum{.kind = ExprKind::kSum, .hint = form.constant, .constant = form.constant};
  sum.terms.reserve(form.terms.size());
  for (auto& [term, coefficient] : form.terms) {
    if (coefficient == 0) continue;
    sum.terms.emplace_back(term, coefficient);
    sum.hint += coefficient * term->hint;
  }
  if (sum.terms.empty()) return form.constant;
  if (form.constant == 0 && sum.terms.size() == 1 && sum.terms[0].second == 1)
    return Int(sum.terms[0].first);
  return Int(arena.intern(std::move(sum)));
}

Factors factors(const Expr* term) {
  if (term->kind != ExprKind::kProduct) return {term};
  Factors result;
  result.reserve(term->terms.size());
  for (auto& [factor, one] : term->terms) result.push_back(factor);
  return result;
}

const Expr* product_of(ExprArena& arena, Factors all) {
  if (all.size() == 1) return all[0];
  std::sort(all.begin(), all.end(), [](const Expr* a, const Expr* b) { return compare(a, b) < 0; });
  Expr product{.kind = ExprKind::kProduct, .hint = 1};
  for (const Expr* factor : all) {
    product.terms.emplace_back(factor, 1);
    product.hint *= factor->hint;
  }
  return arena.intern(std::move(product));
}

}  // namespace braze::sym
