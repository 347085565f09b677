#include "loop/simplify.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include "loop/linear_form.h"
#include "loop/scalar.h"
#include "sym/facts.h"

namespace braze::loop {
namespace {

// The rules on sums, products, quotients and remainders of i64.
class Index {
 public:
  Index(ExprPool& pool, simplify::Raw raw) : pool_(pool), raw_(raw) {}

  ExprRef build(LinearForm form) {
    sort_and_merge(form);
    while (recombine(form)) sort_and_merge(form);
    ExprRef sum = nullptr;
    auto append = [&](ExprRef term) { sum = sum ? raw(ExprKind::kAdd, sum, term) : term; };
    for (const auto& [atom, coefficient] : form.terms)
      append(coefficient == sym::Int(1) ? atom
                                        : raw(ExprKind::kMul, atom, pool_.index(coefficient)));
    if (form.constant != sym::Int(0) || !sum) append(pool_.index(form.constant));
    return sum;
  }

  ExprRef sum(ExprRef a, ExprRef b, sym::Int scale_of_b) {
    LinearForm form;
    collect(a, 1, form);
    collect(b, scale_of_b, form);
    return build(std::move(form));
  }

  ExprRef scaled(ExprRef a, sym::Int scale) {
    LinearForm form;
    if (scale != sym::Int(0)) collect(a, scale, form);
    return build(std::move(form));
  }

  ExprRef product(ExprRef a, ExprRef b) {
    if (is_size(b)) return scaled(a, size_value(b));
    if (is_size(a)) return scaled(b, size_value(a));
    return before(b, a) ? raw(ExprKind::kMul, b, a) : raw(ExprKind::kMul, a, b);
  }

  // n is positive.
  ExprRef floor_div(ExprRef x, sym::Int n) {
    if (n == sym::Int(1)) return x;
    if (is_bounded(x->range)) {
      if (auto constant = constant_quotient(x, n)) return pool_.integer(*constant);
      if (is_size(x)) return pool_.index(sym::floordiv(size_value(x), n));
      Split parts = split(x, n);
      if (!parts.multiple.terms.empty() || parts.multiple.constant != sym::Int(0)) {
        ExprRef whole = build(std::move(parts.multiple));
        return sum(whole, floor_div(build(std::move(parts.rest)), n), 1);
      }
      if (auto factored = factor(x, n)) return floor_div(factored->quotient, factored->of_n);
    }
    if (is_op_by_size(x, ExprKind::kFloorDiv) && exact_product(size_value(x->args[1]), n))
      return floor_div(x->args[0], size_value(x->args[1]) * n);
    if (is_op_by_size(x, ExprKind::kMod))
      if (auto rest = sym::divide_exactly(size_value(x->args[1]), n))
        return mod(floor_div(x->args[0], n), *rest);
    return raw(ExprKind::kFloorDiv, x, pool_.index(n));
  }

  ExprRef mod(ExprRef x, sym::Int n) {
    if (n == sym::Int(1)) return pool_.integer(0);
    if (is_bounded(x->range)) {
      if (auto constant = constant_quotient(x, n)) return sum(x, pool_.index(n), -*constant);
      if (is_size(x)) return pool_.index(sym::mod(size_value(x), n));
      Split parts = split(x, n);
      if (!parts.multiple.terms.empty() || parts.multiple.constant != sym::Int(0))
        return mod(build(std::move(parts.rest)), n);
      if (auto factored = factor(x, n))
        return sum(factored->rest, mod(factored->quotient, factored->of_n), factored->factor);
    }
    if (is_op_by_size(x, ExprKind::kMod) && sym::divide_exactly(size_value(x->args[1]), n))
      return mod(x->args[0], n);
    return raw(ExprKind::kMod, x, pool_.index(n));
  }

 private:
  struct Split {
    LinearForm multiple;  // divided by n
    LinearForm rest;      // constant in [0, n)
  };
  struct Factored {
    sym::Int factor, of_n;  // n == factor * of_n
    ExprRef quotient, rest;
  };

  ExprRef raw(ExprKind kind, ExprRef a, ExprRef b) {
    const std::array<ExprRef, 2> args = {a, b};
    return raw_(pool_, kind, DType::kInt64, args);
  }

  static bool exact_product(sym::Int a, sym::Int b) {
    return !a.is_constant() || !b.is_constant() || a.constant() < kBound / b.constant();
  }

  // floor(x / n) where it is the same at every point.
  static std::optional<int64_t> constant_quotient(ExprRef x, sym::Int n) {
    if (n.is_constant()) {
      const int64_t quotient = sym::floordiv(x->range.lo, n.constant());
      if (quotient == sym::floordiv(x->range.hi, n.constant())) return quotient;
    }
    return lies_within(x, n) ? std::optional<int64_t>(0) : std::nullopt;
  }

  // x == multiple * n + rest
  Split split(ExprRef x, sym::Int n) {
    Split parts;
    LinearForm form = linear_form(x);
    for (const auto& [atom, coefficient] : form.terms) {
      if (auto quotient = sym::divide_exactly(coefficient, n)) {
        parts.multiple.terms.push_back({atom, *quotient});
      } else {
        parts.rest.terms.push_back({atom, coefficient});
      }
    }
    sym::Int whole = 0;
    if (form.constant != sym::Int(0)) whole = sym::floordiv(form.constant, n);
    sym::Int rest = form.constant - whole * n;
    // A quotient of sizes is of use only where it comes out even.
    if (!form.constant.is_constant() && !rest.is_constant()) whole = 0, rest = form.constant;
    if (!n.is_constant() && form.constant.is_constant()) whole = 0, rest = form.constant;
    parts.multiple.constant = whole;
    parts.rest.constant = rest;
    return parts;
  }

  // Divisors of n, larger than 1, that go into terms of x; the largest (by hint) first.
  static std::vector<sym::Int> common_divisors(ExprRef x, sym::Int n) {
    std::vector<sym::Int> divisors;
    for (const auto& term : linear_form(x).terms) {
      sym::Int divisor = term.coefficient;
      if (divisor.is_constant() && n.is_constant())
        divisor = std::gcd(divisor.constant(), n.constant());
      const bool of_use = divisor.is_constant()
                              ? divisor.constant() > 1 && sym::divide_exactly(n, divisor)
                              : sym::known_positive(divisor) && sym::divide_exactly(n, divisor);
      if (of_use && std::ranges::find(divisors, divisor) == divisors.end())
        divisors.push_back(divisor);
    }
    std::ranges::stable_sort(divisors, std::greater<>(), [](sym::Int d) { return d.hint(); });
    return divisors;
  }

  // x == factor * quotient + rest with factor a divisor of n and 0 <= rest < factor.
  std::optional<Factored> factor(ExprRef x, sym::Int n) {
    for (sym::Int divisor : common_divisors(x, n)) {
      Split parts = split(x, divisor);
      ExprRef rest = build(std::move(parts.rest));
      if (lies_within(rest, divisor))
        return Factored{divisor, *sym::divide_exactly(n, divisor), build(std::move(parts.multiple)),
                        rest};
    }
    return std::nullopt;
  }

  // c*(x % n) + c*n*(x // n)  ->  c*x            (a quotient in its simplified form)
  // c*(x % a) + c*a*((x // a) % b)  ->  c*(x % (a*b))
  bool recombine(LinearForm& form) {
    for (size_t i = 0; i < form.terms.size(); ++i) {
      auto [remainder, c] = form.terms[i];
      if (!is_op_by_size(remainder, ExprKind::kMod)) continue;
      ExprRef x = remainder->args[0];
      const sym::Int n = size_value(remainder->args[1]);
      for (size_t j = 0; j < form.terms.size(); ++j) {
        auto [other, scale] = form.terms[j];
        if (i == j || scale != times(c, n)) continue;
        if (is_op_by_size(other, ExprKind::kMod)) {
          const sym::Int b = size_value(other->args[1]);
          if (!exact_product(b, n) || other->args[0] != floor_div(x, n)) continue;
          replace_two(form, i, j, mod(x, n * b), c);
          return true;
        }
        if (other == floor_div(x, n)) {
          replace_two(form, i, j, x, c);
          return true;
        }
      }
    }
    return false;
  }

  static void replace_two(LinearForm& form, size_t i, size_t j, ExprRef by, sym::Int coefficient) {
    form.terms.erase(form.terms.begin() + static_cast<ptrdiff_t>(std::max(i, j)));
    form.terms.erase(form.terms.begin() + static_cast<ptrdiff_t>(std::min(i, j)));
    collect(by, coefficient, form);
  }

  ExprPool& pool_;
  simplify::Raw raw_;
};

std::optional<bool> decide_over_sizes(ExprPool& pool, ExprKind kind, ExprRef a, ExprRef b) {
  if (a->dtype != DType::kInt64 || !is_bounded(a->range) || !is_bounded(b->range))
    return std::nullopt;
  const auto [lo, hi] = bounds_of(pool.binary(ExprKind::kSub, b, a));
  auto at_least = [&](int64_t bound) { return lo && sym::known_at_least(*lo, bound); };
  auto at_most = [&](int64_t bound) { return hi && sym::known_at_most(*hi, bound); };
  if (kind == ExprKind::kLt || kind == ExprKind::kLe) {
    const int64_t least = kind == ExprKind::kLt ? 1 : 0;
    if (at_least(least)) return true;
    if (at_most(least - 1)) return false;
    return std::nullopt;
  }
  if (at_least(1) || at_most(-1)) return kind == ExprKind::kNe;
  return std::nullopt;
}

// The truth of a comparison where the ranges decide it.
std::optional<bool> decide(ExprPool& pool, ExprKind kind, ExprRef a, ExprRef b) {
  if (a->symbolic || b->symbolic)
    if (auto truth = decide_over_sizes(pool, kind, a, b)) return truth;
  Range x = a->range, y = b->range;
  switch (kind) {
    case ExprKind::kLt:
      if (x.hi < y.lo) return true;
      if (x.lo >= y.hi || a == b) return false;
      return std::nullopt;
    case ExprKind::kLe:
      if (x.hi <= y.lo || a == b) return true;
      if (x.lo > y.hi) return false;
      return std::nullopt;
    default:
      break;  // equality
  }
  bool disjoint = x.hi < y.lo || y.hi < x.lo;
  if (a != b && !disjoint) return std::nullopt;
  return (a == b) == (kind == ExprKind::kEq);
}

ExprRef logical(ExprPool& pool, ExprKind kind, ExprRef a, ExprRef b) {
  bool absorbing = kind == ExprKind::kOr;
  for (auto [x, y] : {std::pair{a, b}, std::pair{b, a}}) {
    if (!x->is_constant()) continue;
    return (x->ival != 0) == absorbing ? pool.integer(absorbing, DType::kBool) : y;
  }
  return nullptr;
}

bool is_number(ExprRef e, double value) {
  if (!e->is_constant()) return false;
  if (!graph::is_float(e->dtype)) return static_cast<double>(e->ival) == value;
  return e->fval == value && std::signbit(e->fval) == std::signbit(value);
}

}  // namespace

namespace simplify {

ExprRef identity(ExprPool& pool, ExprKind kind, DType, std::span<const ExprRef> args) {
  ExprRef a = args[0];
  ExprRef b = args.size() > 1 ? args[1] : nullptr;
  switch (kind) {
    case ExprKind::kNeg:
    case ExprKind::kBitNot:
    case ExprKind::kNot:
      return a->kind == kind ? a->args[0] : nullptr;
    case ExprKind::kAbs:
      return a->kind == kind ? a : nullptr;
    case ExprKind::kWhere:
      if (args[1] == args[2]) return args[1];
      if (a->kind == ExprKind::kNot) return pool.where(a->args[0], args[2], args[1]);
      [[fallthrough]];
    case ExprKind::kMasked:
      if (a->is_constant()) return a->ival ? args[1] : args[2];
      return nullptr;
    case ExprKind::kAdd:
      // x + 0.0 would turn -0.0 into 0.0; x + -0.0 is x.
      if (graph::is_float(a->dtype))
        return is_number(b, -0.0) ? a : is_number(a, -0.0) ? b : nullptr;
      return is_number(b, 0) ? a : is_number(a, 0) ? b : nullptr;
    case ExprKind::kSub:
      return is_number(b, 0.0) ? a : nullptr;
    case ExprKind::kMul:
      return is_number(b, 1) ? a : is_number(a, 1) ? b : nullptr;
    case ExprKind::kDiv:
      return is_number(b, 1) ? a : nullptr;
    case ExprKind::kMin:
    case ExprKind::kMax:
      return a == b ? a : nullptr;
    default:
      return nullptr;  // a table of rules, not a closed switch: most ops have none
  }
}

ExprRef integer_op(ExprPool& pool, Raw raw, ExprKind kind, DType dtype,
                   std::span<const ExprRef> args) {
  Index index(pool, raw);
  ExprRef a = args[0];
  ExprRef b = args.size() > 1 ? args[1] : nullptr;
  const bool is_index = a->dtype == DType::kInt64;
  const auto is_divisor = [](ExprRef e) {
    return (e->is_constant() || e->kind == ExprKind::kSize) && e->range.lo > 0;
  };
  switch (kind) {
    case ExprKind::kAdd:
      return is_index ? index.sum(a, b, 1) : nullptr;
    case ExprKind::kSub:
      return is_index ? index.sum(a, b, -1) : nullptr;
    case ExprKind::kNeg:
      return is_index ? index.scaled(a, -1) : nullptr;
    case ExprKind::kMul:
      return is_index ? index.product(a, b) : nullptr;
    case ExprKind::kTruncDiv:
    case ExprKind::kFmod:
      if (a->range.lo < 0 || !is_divisor(b)) return nullptr;
      return pool.binary(kind == ExprKind::kFmod ? ExprKind::kMod : ExprKind::kFloorDiv, a, b);
    case ExprKind::kFloorDiv:
      if (!is_divisor(b)) return nullptr;
      if (is_index) return index.floor_div(a, size_value(b));
      return b->ival == 1 ? a : nullptr;
    case ExprKind::kMod:
      return is_index && is_divisor(b) ? index.mod(a, size_value(b)) : nullptr;
    case ExprKind::kMin:
      return a->range.hi <= b->range.lo ? a : b->range.hi <= a->range.lo ? b : nullptr;
    case ExprKind::kMax:
      return a->range.lo >= b->range.hi ? a : b->range.lo >= a->range.hi ? b : nullptr;
    case ExprKind::kEq:
    case ExprKind::kNe:
    case ExprKind::kLt:
    case ExprKind::kLe: {
      auto truth = decide(pool, kind, a, b);
      return truth ? pool.integer(*truth, DType::kBool) : nullptr;
    }
    case ExprKind::kAnd:
    case ExprKind::kOr:
      if (a == b) return a;
      return dtype == DType::kBool ? logical(pool, kind, a, b) : nullptr;
    case ExprKind::kCheckIndex:
      return is_size(b) && lies_within(a, size_value(b)) ? a : nullptr;
    default:
      return nullptr;  // a table of rules, not a closed switch: most ops have none
  }
}

}  // namespace simplify

}  // namespace braze::loop
