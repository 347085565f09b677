#include "sym/expr.h"

#include <algorithm>
#include <map>

namespace braze::sym {
namespace {

int64_t clamp_to_int64(__int128 value) {
  if (value > INT64_MAX) return INT64_MAX;
  if (value < INT64_MIN) return INT64_MIN;
  return static_cast<int64_t>(value);
}

bool unbounded(int64_t end) { return end == INT64_MIN || end == INT64_MAX; }

Range add(Range a, Range b) {
  auto end = [](int64_t x, int64_t y) {
    if (unbounded(x)) return x;
    if (unbounded(y)) return y;
    return clamp_to_int64(static_cast<__int128>(x) + y);
  };
  return {end(a.low, b.low), end(a.high, b.high)};
}

Range multiply(Range a, Range b) {
  const __int128 corners[] = {
      static_cast<__int128>(a.low) * b.low, static_cast<__int128>(a.low) * b.high,
      static_cast<__int128>(a.high) * b.low, static_cast<__int128>(a.high) * b.high};
  return {clamp_to_int64(*std::min_element(std::begin(corners), std::end(corners))),
          clamp_to_int64(*std::max_element(std::begin(corners), std::end(corners)))};
}

int compare(const Expr* a, const Expr* b);

int compare(int64_t a, int64_t b) { return a < b ? -1 : a > b ? 1 : 0; }

int compare(Int a, Int b) {
  if (a.is_constant() != b.is_constant()) return a.is_constant() ? -1 : 1;
  return a.is_constant() ? compare(a.constant(), b.constant()) : compare(a.expr(), b.expr());
}

// A total order by structure: symbols first, in their order.
int compare(const Expr* a, const Expr* b) {
  if (a == b) return 0;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  if (int order = compare(a->symbol, b->symbol)) return order;
  for (size_t i = 0; i < a->terms.size() && i < b->terms.size(); ++i) {
    if (int order = compare(a->terms[i].first, b->terms[i].first)) return order;
    if (int order = compare(a->terms[i].second, b->terms[i].second)) return order;
  }
  if (a->terms.size() != b->terms.size()) return a->terms.size() < b->terms.size() ? -1 : 1;
  if (int order = compare(a->constant, b->constant)) return order;
  if (int order = compare(a->a, b->a)) return order;
  return compare(a->b, b->b);
}

struct ByStructure {
  bool operator()(const Expr* a, const Expr* b) const { return compare(a, b) < 0; }
};

// The value as a linear form: terms in their order, and a constant.
struct Linear {
  int64_t constant = 0;
  std::map<const Expr*, int64_t, ByStructure> terms;

  void add(Int value, int64_t scale) {
    if (value.is_constant()) {
      constant += scale * value.constant();
    } else if (value.expr()->kind == ExprKind::kSum) {
      constant += scale * value.expr()->constant;
      for (auto& [term, coefficient] : value.expr()->terms) terms[term] += scale * coefficient;
    } else {
      terms[value.expr()] += scale;
    }
  }
};

Linear linear(Int value) {
  Linear form;
  form.add(value, 1);
  return form;
}

ExprArena& arena_of(Int a, Int b) {
  ExprArena* arena = a.expr() ? a.expr()->arena : b.expr()->arena;
  BRAZE_CHECK(!a.expr() || !b.expr() || a.expr()->arena == b.expr()->arena,
              "symbols of two shape environments in one expression");
  return *arena;
}

Int from_linear(ExprArena& arena, const Linear& form) {
  Expr sum{.kind = ExprKind::kSum, .hint = form.constant, .constant = form.constant};
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

std::vector<const Expr*> factors(const Expr* term) {
  if (term->kind != ExprKind::kProduct) return {term};
  std::vector<const Expr*> result;
  for (auto& [factor, one] : term->terms) result.push_back(factor);
  return result;
}

const Expr* product_of(ExprArena& arena, std::vector<const Expr*> all) {
  if (all.size() == 1) return all[0];
  std::sort(all.begin(), all.end(), ByStructure{});
  Expr product{.kind = ExprKind::kProduct, .hint = 1};
  for (const Expr* factor : all) {
    product.terms.emplace_back(factor, 1);
    product.hint *= factor->hint;
  }
  return arena.intern(std::move(product));
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
        quotient.terms[term] = coefficient / divisor;
      else
        rest.terms[term] = coefficient;
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
  const std::vector<const Expr*> divisor = factors(product);
  for (auto& [term, multiple] : form.terms) {
    if (multiple % scale != 0) {
      rest.terms[term] += multiple;
      continue;
    }
    const int64_t coefficient = multiple / scale;
    std::vector<const Expr*> left = factors(term);
    bool divides = true;
    for (const Expr* factor : divisor) {
      auto found = std::find(left.begin(), left.end(), factor);
      divides = divides && found != left.end();
      if (divides) left.erase(found);
    }
    if (!divides)
      rest.terms[term] += multiple;
    else if (left.empty())
      quotient.constant += coefficient;
    else
      quotient.terms[product_of(arena, std::move(left))] += coefficient;
  }
  return {from_linear(arena, quotient), from_linear(arena, rest)};
}

// 0 <= a < b for all values in range.
bool within(Int a, Int b) {
  const ExprArena& arena = arena_of(a, b);
  return arena.range_of(a).low >= 0 && arena.range_of(b - a).low > 0;
}

}  // namespace

const Expr* ExprArena::symbol(std::string name, int64_t hint, Range range) {
  const int number = symbol_count();
  const Expr* expr = intern(Expr{.kind = ExprKind::kSymbol, .hint = hint, .symbol = number});
  symbols_.push_back({std::move(name), range, expr});
  return expr;
}

const Expr* ExprArena::find(std::string_view name) const {
  for (const Symbol& symbol : symbols_) {
    if (symbol.name == name) return symbol.expr;
  }
  return nullptr;
}

const Expr* ExprArena::intern(Expr expr) {
  auto operand = [](Int value) {
    return value.expr() ? "e" + std::to_string(value.expr()->id) : std::to_string(value.constant());
  };
  std::string key = std::to_string(static_cast<int>(expr.kind)) + ":" +
                    std::to_string(expr.symbol) + ":" + std::to_string(expr.constant);
  for (auto& [term, coefficient] : expr.terms)
    key += "," + std::to_string(coefficient) + "*" + std::to_string(term->id);
  key += ";" + operand(expr.a) + ";" + operand(expr.b);
  std::unique_ptr<Expr>& place = interned_[key];
  if (!place) {
    expr.arena = this;
    expr.id = static_cast<uint32_t>(interned_.size());
    place = std::make_unique<Expr>(std::move(expr));
  }
  return place.get();
}

namespace {

Range intersect(Range a, Range b) { return {std::max(a.low, b.low), std::min(a.high, b.high)}; }

// s0*s1 - s0 is s0 * (s1 - 1): of a sum whose terms share a factor, by the two parts.
Range range_by_factor(const ExprArena& arena, const Expr& sum) {
  if (sum.constant != 0 || sum.terms.size() < 2) return {};
  std::vector<const Expr*> shared = factors(sum.terms[0].first);
  for (auto& [term, coefficient] : sum.terms) {
    const std::vector<const Expr*> own = factors(term);
    std::erase_if(shared, [&](const Expr* factor) {
      return std::find(own.begin(), own.end(), factor) == own.end();
    });
  }
  if (shared.empty()) return {};
  Linear rest;
  for (auto& [term, coefficient] : sum.terms) {
    std::vector<const Expr*> left = factors(term);
    left.erase(std::find(left.begin(), left.end(), shared[0]));
    if (left.empty())
      rest.constant += coefficient;
    else
      rest.terms[product_of(*sum.arena, std::move(left))] += coefficient;
  }
  return multiply(arena.range_of(Int(shared[0])), arena.range_of(from_linear(*sum.arena, rest)));
}

// c * (a // c) lies in [a - c + 1, a], so that s0 - s0 // 2 is never negative.
Range range_without_division(const ExprArena& arena, const Expr& sum) {
  for (auto& [term, coefficient] : sum.terms) {
    if (term->kind != ExprKind::kFloorDiv || !term->b.is_constant()) continue;
    const int64_t divisor = term->b.constant();
    if (divisor < 2) continue;
    Linear scaled;
    scaled.add(Int(&sum), divisor);
    scaled.add(Int(term), -divisor * coefficient);
    scaled.add(term->a, coefficient);
    const Range rounding = multiply({1 - divisor, 0}, {coefficient, coefficient});
    const Range range = add(arena.range_of(from_linear(*sum.arena, scaled)), rounding);
    return {unbounded(range.low) ? range.low : -floordiv(-range.low, divisor),
            unbounded(range.high) ? range.high : floordiv(range.high, divisor)};
  }
  return {};
}

}  // namespace

Range ExprArena::range_of(Int a) const {
  if (a.is_constant()) return {a.constant(), a.constant()};
  const Expr& e = *a.expr();
  switch (e.kind) {
    case ExprKind::kSymbol:
      return symbols_[e.symbol].range;
    case ExprKind::kSum: {
      Range range{e.constant, e.constant};
      for (auto& [term, coefficient] : e.terms)
        range = add(range, multiply(range_of(Int(term)), {coefficient, coefficient}));
      if (range.low > 0 || range.high < 0) return range;
      return intersect(range,
                       intersect(range_by_factor(*this, e), range_without_division(*this, e)));
    }
    case ExprKind::kProduct: {
      Range range{1, 1};
      for (auto& [factor, one] : e.terms) range = multiply(range, range_of(Int(factor)));
      return range;
    }
    case ExprKind::kFloorDiv: {
      const Range dividend = range_of(e.a), divisor = range_of(e.b);
      if (!divisor.is_point() || divisor.low <= 0)
        return dividend.low >= 0 && divisor.low > 0 ? Range{0, dividend.high} : Range{};
      auto end = [&](int64_t x) { return unbounded(x) ? x : floordiv(x, divisor.low); };
      return {end(dividend.low), end(dividend.high)};
    }
    case ExprKind::kMod: {
      const Range divisor = range_of(e.b);
      if (divisor.low <= 0) return {};
      return {0, unbounded(divisor.high) ? INT64_MAX : divisor.high - 1};
    }
    case ExprKind::kMin: {
      const Range x = range_of(e.a), y = range_of(e.b);
      return {std::min(x.low, y.low), std::min(x.high, y.high)};
    }
    case ExprKind::kMax: {
      const Range x = range_of(e.a), y = range_of(e.b);
      return {std::max(x.low, y.low), std::max(x.high, y.high)};
    }
  }
  BRAZE_UNREACHABLE("expression kind");
}

Int replace(Int a, std::span<const Int> values) {
  if (a.is_constant()) return a;
  const Expr& e = *a.expr();
  switch (e.kind) {
    case ExprKind::kSymbol:
      BRAZE_CHECK(e.symbol < static_cast<int>(values.size()), "no value for a symbol");
      return values[e.symbol];
    case ExprKind::kSum: {
      Int sum = e.constant;
      for (auto& [term, coefficient] : e.terms)
        sum = sum + Int(coefficient) * replace(Int(term), values);
      return sum;
    }
    case ExprKind::kProduct: {
      Int product = 1;
      for (auto& [factor, one] : e.terms) product = product * replace(Int(factor), values);
      return product;
    }
    case ExprKind::kFloorDiv:
      return floordiv(replace(e.a, values), replace(e.b, values));
    case ExprKind::kMod:
      return mod(replace(e.a, values), replace(e.b, values));
    case ExprKind::kMin:
      return min(replace(e.a, values), replace(e.b, values));
    case ExprKind::kMax:
      return max(replace(e.a, values), replace(e.b, values));
  }
  BRAZE_UNREACHABLE("expression kind");
}

int64_t evaluate(Int a, std::span<const int64_t> values) {
  if (a.is_constant()) return a.constant();
  const Expr& e = *a.expr();
  auto operand = [&](Int value) { return evaluate(value, values); };
  switch (e.kind) {
    case ExprKind::kSymbol:
      BRAZE_CHECK(e.symbol < static_cast<int>(values.size()), "no value for a symbol");
      return values[e.symbol];
    case ExprKind::kSum: {
      int64_t sum = e.constant;
      for (auto& [term, coefficient] : e.terms) sum += coefficient * operand(Int(term));
      return sum;
    }
    case ExprKind::kProduct: {
      int64_t product = 1;
      for (auto& [factor, one] : e.terms) product *= operand(Int(factor));
      return product;
    }
    case ExprKind::kFloorDiv:
      return floordiv(operand(e.a), operand(e.b));
    case ExprKind::kMod:
      return mod(operand(e.a), operand(e.b));
    case ExprKind::kMin:
      return std::min(operand(e.a), operand(e.b));
    case ExprKind::kMax:
      return std::max(operand(e.a), operand(e.b));
  }
  BRAZE_UNREACHABLE("expression kind");
}

namespace detail {

Int add(Int a, Int b) {
  Linear form = linear(a);
  form.add(b, 1);
  return from_linear(arena_of(a, b), form);
}

Int multiply(Int a, Int b) {
  ExprArena& arena = arena_of(a, b);
  const Linear left = linear(a), right = linear(b);
  Linear result;
  result.constant = left.constant * right.constant;
  for (auto& [term, coefficient] : left.terms) result.terms[term] += coefficient * right.constant;
  for (auto& [term, coefficient] : right.terms) result.terms[term] += coefficient * left.constant;
  for (auto& [x, x_coefficient] : left.terms) {
    for (auto& [y, y_coefficient] : right.terms) {
      std::vector<const Expr*> all = factors(x);
      for (const Expr* factor : factors(y)) all.push_back(factor);
      result.terms[product_of(arena, std::move(all))] += x_coefficient * y_coefficient;
    }
  }
  return from_linear(arena, result);
}

Int floordiv(Int a, Int b) {
  const auto [quotient, rest] = split_multiples(a, b);
  if (detail::constants(rest, b)) return quotient + sym::floordiv(rest, b);
  if (rest == Int(0) || within(rest, b)) return quotient;
  return quotient + binary(ExprKind::kFloorDiv, rest, b, sym::floordiv(rest.hint(), b.hint()));
}

Int mod(Int a, Int b) {
  const Int rest = split_multiples(a, b).rest;
  if (detail::constants(rest, b)) return sym::mod(rest, b);
  if (rest == Int(0) || within(rest, b)) return rest;
  return binary(ExprKind::kMod, rest, b, sym::mod(rest.hint(), b.hint()));
}

namespace {
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
}  // namespace

Int min(Int a, Int b) { return extremum(ExprKind::kMin, a, b); }
Int max(Int a, Int b) { return extremum(ExprKind::kMax, a, b); }

}  // namespace detail

namespace {

// Whether the text must stand in brackets as an operand of *, // and %.
bool needs_brackets(Int a) {
  if (a.is_constant()) return a.constant() < 0;
  return a.expr()->kind != ExprKind::kSymbol && a.expr()->kind != ExprKind::kMin &&
         a.expr()->kind != ExprKind::kMax;
}

std::string operand_text(Int a) {
  return needs_brackets(a) ? "(" + to_string(a) + ")" : to_string(a);
}

std::string sum_text(const Expr& e) {
  std::string text;
  auto append = [&](int64_t coefficient, const std::string& term) {
    const bool negative = coefficient < 0;
    if (text.empty())
      text = negative ? "-" : "";
    else
      text += negative ? " - " : " + ";
    const std::string magnitude =
        negative ? std::to_string(coefficient).substr(1) : std::to_string(coefficient);
    if (term.empty())
      text += magnitude;
    else
      text += magnitude == "1" ? term : magnitude + "*" + term;
  };
  for (auto& [term, coefficient] : e.terms) {
    const bool product = term->kind == ExprKind::kProduct;
    append(coefficient,
           product || coefficient == 1 ? to_string(Int(term)) : operand_text(Int(term)));
  }
  if (e.constant != 0) append(e.constant, "");
  return text;
}

}  // namespace

std::string to_string(Int a) {
  if (a.is_constant()) return std::to_string(a.constant());
  const Expr& e = *a.expr();
  switch (e.kind) {
    case ExprKind::kSymbol:
      return e.arena->name(e.symbol);
    case ExprKind::kSum:
      return sum_text(e);
    case ExprKind::kProduct: {
      std::string text;
      for (auto& [factor, one] : e.terms)
        text += (text.empty() ? "" : "*") + operand_text(Int(factor));
      return text;
    }
    case ExprKind::kFloorDiv:
      return operand_text(e.a) + " // " + operand_text(e.b);
    case ExprKind::kMod:
      return operand_text(e.a) + " % " + operand_text(e.b);
    case ExprKind::kMin:
      return "min(" + to_string(e.a) + ", " + to_string(e.b) + ")";
    case ExprKind::kMax:
      return "max(" + to_string(e.a) + ", " + to_string(e.b) + ")";
  }
  BRAZE_UNREACHABLE("expression kind");
}

}  // namespace braze::sym
