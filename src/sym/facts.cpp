#include "sym/facts.h"

#include <algorithm>
#include <map>
#include <vector>

#include "sym/linear.h"

namespace braze::sym {
namespace {

struct Monomial {
  Factors factors;  // empty: the constant
  int64_t coefficient = 0;
};

std::vector<Monomial> monomials(Int a) {
  if (a.is_constant()) return {{{}, a.constant()}};
  const Expr& e = *a.expr();
  if (e.kind != ExprKind::kSum) return {{factors(&e), 1}};
  std::vector<Monomial> result;
  for (const auto& [term, coefficient] : e.terms) result.push_back({factors(term), coefficient});
  if (e.constant != 0) result.push_back({{}, e.constant});
  return result;
}

std::optional<Int> quotient(const Monomial& a, const Monomial& b) {
  if (b.coefficient == 0 || a.coefficient % b.coefficient != 0) return std::nullopt;
  Factors left = a.factors;
  for (const Expr* factor : b.factors) {
    auto found = std::find(left.begin(), left.end(), factor);
    if (found == left.end()) return std::nullopt;
    left.erase(found);
  }
  Int result = a.coefficient / b.coefficient;
  for (const Expr* factor : left) result = result * Int(factor);
  return result;
}

// Every factor is its least value plus something that is not negative: when the polynomial over
// those somethings has no negative coefficient, its constant is a lower bound.
bool at_least_by_shift(Int a, int64_t bound) {
  std::map<Factors, __int128> shifted;
  for (const Monomial& monomial : monomials(a)) {
    if (monomial.factors.size() > 4) return false;
    std::vector<int64_t> least;
    for (const Expr* factor : monomial.factors) {
      least.push_back(range_of(Int(factor)).low);
      if (least.back() < 0 || least.back() > (int64_t{1} << 20)) return false;
    }
    for (unsigned mask = 0; mask < 1u << least.size(); ++mask) {
      __int128 coefficient = monomial.coefficient;
      Factors kept;
      for (size_t i = 0; i < least.size(); ++i) {
        if (mask >> i & 1)
          kept.push_back(monomial.factors[i]);
        else
          coefficient *= least[i];
      }
      std::sort(kept.begin(), kept.end());
      shifted[kept] += coefficient;
    }
  }
  for (const auto& [factors, coefficient] : shifted)
    if (!factors.empty() && coefficient < 0) return false;
  const auto constant = shifted.find({});
  return (constant == shifted.end() ? 0 : constant->second) >= bound;
}

std::optional<Int> divide_symbols(Int a, Int b) {
  const std::vector<Monomial> dividend = monomials(a), divisor = monomials(b);
  if (divisor.size() == 1) {
    Int result = 0;
    for (const Monomial& monomial : dividend) {
      std::optional<Int> part = quotient(monomial, divisor[0]);
      if (!part) return std::nullopt;
      result = result + *part;
    }
    return result;
  }
  // By a sum: the first terms give the only candidate of one term.
  std::optional<Int> candidate = quotient(dividend[0], divisor[0]);
  if (candidate && *candidate * b == a) return candidate;
  return std::nullopt;
}

}  // namespace

std::optional<Int> divide_exactly(Int a, Int b) {
  if (b == Int(1) || a == Int(0)) return a;
  if (a == b) return Int(1);
  if (detail::constants(a, b)) {
    if (b.constant() == 0 || a.constant() % b.constant() != 0) return std::nullopt;
    return a.constant() / b.constant();
  }
  ExprArena& arena = a.expr() ? *a.expr()->arena : *b.expr()->arena;
  return arena.remember(Operation::kDivideExactly, a, b, [&] { return divide_symbols(a, b); });
}

Range range_of(Int a) {
  if (a.is_constant()) return {a.constant(), a.constant()};
  return a.expr()->arena->range_of(a);
}

bool known_at_least(Int a, int64_t bound) {
  if (range_of(a).low >= bound) return true;
  if (a.is_constant()) return false;
  const std::optional<Int> shown =
      a.expr()->arena->remember(Operation::kAtLeastByShift, a, bound,
                                [&] { return std::optional<Int>(at_least_by_shift(a, bound)); });
  return shown == Int(1);
}

}  // namespace braze::sym
