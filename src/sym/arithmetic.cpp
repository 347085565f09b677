// Sums, products, divisions and extrema of symbolic integers in canonical form.
#include <algorithm>

#include "sym/linear.h"

namespace braze::sym {
namespace {

ExprArena& arena_of(Int a, Int b) {
  ExprArena* arena = a.expr() ? a.expr()->arena : b.expr()->arena;
  BRAZE_CHECK(!a.expr() || !b.expr() || a.expr()->arena == b.expr()->arena,
              "symbols of two shape environments in one expression");
  return *arena;
}

Int binary(ExprKind kind, Int a, Int b, int64_t hint) {
  return Int(arena_of(a, b).intern(Expr{.kind = kind, .hint = hint, .a = a, .b = b}));
}

// The part of `a` that `b` divides without remainder, divided, and what is left of `a`.
struct Split {
  Int quotient;
  Int rest;
};

Split split_multiples(Int a, Int b) {
  ExprArena& arena = arena_of(a, b);
  const Linear form = linear(a);
  Linear quotient, rest;
  if (b.is_constant()) {
    const int64_t divisor = b.constant();
    quotient.constant = floordiv(form.constant, divisor);
    rest.constant = mod(form.constant, divisor);
    for (auto& [term, coefficient] : form.terms) {
      if (coefficient % divisor == 0)
        quotient.add_term(term, coefficient / divisor);
      else
        rest.add_term(term, coefficient);
    }
    return {from_linear(arena, quotient), from_linear(arena, rest)};
  }
  // A symbolic divisor: cancel its factors where a term has all of them.
  const Expr* product = b.expr();
  int64_t scale = 1;
  if (product->kind == ExprKind::kSum) {
    if (a == b) return {1, 0};
    if (product->terms.size() != 1 || product->constant != 0) return {0, a};
    scale = product->terms[0].second;
    product = product->terms[0].first;
  }
  rest.constant = form.constant;
  const Factors divisor = factors(product);
  for (auto& [term, multiple] : form.terms) {
    if (multiple % scale != 0) {
      rest.add_term(term, multiple);
      continue;
    }
    const int64_t coefficient = multiple / scale;
    Factors left = factors(term);
    bool divides = true;
    for (const Expr* factor : divisor) {
      auto found = std::find(left.begin(), left.end(), factor);
      divides = divides && found != left.end();
      if (divides) left.erase(found);
    }
    if (!divides)
      rest.add_term(term, multiple);
    else if (left.empty())
      quotient.constant += coefficient;
    else
      quotient.add_term(product_of(arena, std::move(left)), coefficient);
  }
  return {from_linear(arena, quotient), from_linear(arena, rest)};
}

// 0 <= a < b for all values in range.
bool within(Int a, Int b) {
  const ExprArena& arena = arena_of(a, b);
  return arena.range_of(a).low >= 0 && arena.range_of(b - a).low > 0;
}

}  // namespace

namespace detail {

namespace {

Int sum(ExprArena& arena, Int a, Int b) {
  Linear form = linear(a);
  form.add(b, 1);
  return from_linear(arena, form);
}

Int product(ExprArena& arena, Int a, Int b) {
  const Linear left = linear(a), right = linear(b);
  Linear result;
  result.constant = left.constant * right.constant;
  for (auto& [term, coefficient] : left.terms) result.add_term(term, coefficient * right.constant);
  for (auto& [term, coefficient] : right.terms) result.add_term(term, coefficient * left.constant);
  for (auto& [x, x_coefficient] : left.terms) {
    for (auto& [y, y_coefficient] : right.terms) {
      Factors all = factors(x);
      for (const Expr* factor : factors(y)) all.push_back(factor);
      result.add_term(product_of(arena, std::move(all)), x_coefficient * y_coefficient);
    }
  }
  return from_linear(arena, result);
}

Int quotient(Int a, Int b) {
  const auto [quotient, rest] = split_multiples(a, b);
  if (detail::constants(rest, b)) return quotient + sym::floordiv(rest, b);
  if (rest == Int(0) || within(rest, b)) return quotient;
  return quotient + binary(ExprKind::kFloorDiv, rest, b, sym::floordiv(rest.hint(), b.hint()));
}

Int remainder(Int a, Int b) {
  const Int rest = split_multiples(a, b).rest;
  if (detail::constants(rest, b)) return sym::mod(rest, b);
  if (rest == Int(0) || within(rest, b)) return rest;
  return binary(ExprKind::kMod, rest, b, sym::mod(rest.hint(), b.hint()));
}

Int extremum(ExprKind kind, Int a, Int b) {
  const bool smaller = kind == ExprKind::kMin;
  const Int difference = a - b;
  const Range range = difference.is_constant() ? Range{difference.constant(), difference.constant()}
                                               : difference.expr()->arena->range_of(difference);
  if (range.high <= 0) return smaller ? a : b;
  if (range.low >= 0) return smaller ? b : a;
  // A constant stands on the right.
  if (a.is_constant() || (b.expr() && compare(b, a) < 0)) std::swap(a, b);
  return binary(kind, a, b, smaller ? std::min(a.hint(), b.hint()) : std::max(a.hint(), b.hint()));
}
// Sums and products are symmetric: one of the two orders is remembered.
void put_in_order(Int& a, Int& b) {
  if (!b.expr() || (a.expr() && b.expr()->id < a.expr()->id)) std::swap(a, b);
}

}  // namespace

Int add(Int a, Int b) {
  ExprArena& arena = arena_of(a, b);
  put_in_order(a, b);
  return *arena.remember(Operation::kAdd, a, b, [&] { return sum(arena, a, b); });
}

Int multiply(Int a, Int b) {
  ExprArena& arena = arena_of(a, b);
  put_in_order(a, b);
  return *arena.remember(Operation::kMultiply, a, b, [&] { return product(arena, a, b); });
}

Int floordiv(Int a, Int b) {
  return *arena_of(a, b).remember(Operation::kFloorDiv, a, b, [&] { return quotient(a, b); });
}

Int mod(Int a, Int b) {
  return *arena_of(a, b).remember(Operation::kMod, a, b, [&] { return remainder(a, b); });
}

Int min(Int a, Int b) {
  return *arena_of(a, b).remember(Operation::kMin, a, b,
                                  [&] { return extremum(ExprKind::kMin, a, b); });
}

Int max(Int a, Int b) {
  return *arena_of(a, b).remember(Operation::kMax, a, b,
                                  [&] { return extremum(ExprKind::kMax, a, b); });
}

}  // namespace detail

}  // namespace braze::sym
