#include "loop/simplify.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "loop/scalar.h"

namespace braze::loop {
namespace {

using Wide = __int128;
constexpr int64_t kBound = int64_t{1} << 60;

// Axes first, by number; then by structure, so that the order is the same in every pool.
bool before(ExprRef a, ExprRef b) {
  bool a_axis = a->kind == ExprKind::kAxis, b_axis = b->kind == ExprKind::kAxis;
  if (a_axis != b_axis) return a_axis;
  if (a_axis && a->ival != b->ival) return a->ival < b->ival;
  return a->hash != b->hash ? a->hash < b->hash : a->id < b->id;
}

int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t wrapping_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t floor_quotient(int64_t a, int64_t positive) {
  return a >= 0 ? a / positive : -((-(a + 1)) / positive) - 1;
}

bool is_sum(ExprRef e) { return e->kind == ExprKind::kAdd && e->dtype == DType::kInt64; }
bool is_scaled(ExprRef e) {
  return e->kind == ExprKind::kMul && e->dtype == DType::kInt64 && e->args[1]->is_constant();
}
bool is_op_by_constant(ExprRef e, ExprKind kind) {
  return e->kind == kind && e->dtype == DType::kInt64 && e->args[1]->is_constant() &&
         e->args[1]->ival > 0;
}

void collect(ExprRef e, int64_t scale, LinearForm& form) {
  for (; is_sum(e); e = e->args[0]) collect(e->args[1], scale, form);
  if (e->is_constant()) {
    form.constant = wrapping_add(form.constant, wrapping_mul(scale, e->ival));
  } else if (is_scaled(e)) {
    form.terms.push_back({e->args[0], wrapping_mul(scale, e->args[1]->ival)});
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
      terms[kept - 1].coefficient = wrapping_add(terms[kept - 1].coefficient, terms[i].coefficient);
    } else {
      if (kept > 0 && terms[kept - 1].coefficient == 0) --kept;
      terms[kept++] = terms[i];
    }
  }
  if (kept > 0 && terms[kept - 1].coefficient == 0) --kept;
  terms.resize(kept);
}

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
      append(coefficient == 1 ? atom : raw(ExprKind::kMul, atom, pool_.integer(coefficient)));
    if (form.constant != 0 || !sum) append(pool_.integer(form.constant));
    return sum;
  }

  ExprRef sum(ExprRef a, ExprRef b, int64_t scale_of_b) {
    LinearForm form;
    collect(a, 1, form);
    collect(b, scale_of_b, form);
    return build(std::move(form));
  }

  ExprRef scaled(ExprRef a, int64_t scale) {
    LinearForm form;
    if (scale != 0) collect(a, scale, form);
    return build(std::move(form));
  }

  ExprRef product(ExprRef a, ExprRef b) {
    if (b->is_constant()) return scaled(a, b->ival);
    if (a->is_constant()) return scaled(b, a->ival);
    return before(b, a) ? raw(ExprKind::kMul, b, a) : raw(ExprKind::kMul, a, b);
  }

  ExprRef floor_div(ExprRef x, int64_t n) {
    if (n == 1) return x;
    if (is_bounded(x->range)) {
      int64_t quotient = floor_quotient(x->range.lo, n);
      if (quotient == floor_quotient(x->range.hi, n)) return pool_.integer(quotient);
      Split parts = split(x, n);
      if (!parts.multiple.terms.empty() || parts.multiple.constant != 0) {
        ExprRef whole = build(std::move(parts.multiple));
        return sum(whole, floor_div(build(std::move(parts.rest)), n), 1);
      }
      if (auto factored = factor(x, n)) return floor_div(factored->quotient, n / factored->factor);
    }
    if (is_op_by_constant(x, ExprKind::kFloorDiv) && x->args[1]->ival < kBound / n)
      return floor_div(x->args[0], x->args[1]->ival * n);
    if (is_op_by_constant(x, ExprKind::kMod) && x->args[1]->ival % n == 0)
      return mod(floor_div(x->args[0], n), x->args[1]->ival / n);
    return raw(ExprKind::kFloorDiv, x, pool_.integer(n));
  }

  ExprRef mod(ExprRef x, int64_t n) {
    if (n == 1) return pool_.integer(0);
    if (is_bounded(x->range)) {
      int64_t quotient = floor_quotient(x->range.lo, n);
      if (quotient == floor_quotient(x->range.hi, n))
        return sum(x, pool_.integer(quotient * n), -1);
      Split parts = split(x, n);
      if (!parts.multiple.terms.empty() || parts.multiple.constant != 0)
        return mod(build(std::move(parts.rest)), n);
      if (auto factored = factor(x, n)) {
        int64_t g = factored->factor;
        return sum(factored->rest, mod(factored->quotient, n / g), g);
      }
    }
    if (is_op_by_constant(x, ExprKind::kMod) && x->args[1]->ival % n == 0)
      return mod(x->args[0], n);
    return raw(ExprKind::kMod, x, pool_.integer(n));
  }

 private:
  struct Split {
    LinearForm multiple;  // divided by n
    LinearForm rest;      // constant in [0, n)
  };
  struct Factored {
    int64_t factor;
    ExprRef quotient, rest;
  };

  ExprRef raw(ExprKind kind, ExprRef a, ExprRef b) {
    const std::array<ExprRef, 2> args = {a, b};
    return raw_(pool_, kind, DType::kInt64, args);
  }

  // x == multiple * n + rest
  Split split(ExprRef x, int64_t n) {
    Split parts;
    LinearForm form = linear_form(x);
    for (const auto& [atom, coefficient] : form.terms) {
      if (coefficient % n == 0) {
        parts.multiple.terms.push_back({atom, coefficient / n});
      } else {
        parts.rest.terms.push_back({atom, coefficient});
      }
    }
    parts.multiple.constant = floor_quotient(form.constant, n);
    parts.rest.constant = form.constant - parts.multiple.constant * n;
    return parts;
  }

  // x == factor * quotient + rest with factor > 1 a divisor of n and 0 <= rest < factor.
  std::optional<Factored> factor(ExprRef x, int64_t n) {
    std::vector<int64_t> candidates;
    for (const auto& term : linear_form(x).terms) {
      int64_t divisor = std::gcd(term.coefficient, n);
      if (divisor > 1 && std::ranges::find(candidates, divisor) == candidates.end())
        candidates.push_back(divisor);
    }
    std::ranges::sort(candidates, std::greater<>());
    for (int64_t divisor : candidates) {
      Split parts = split(x, divisor);
      ExprRef rest = build(std::move(parts.rest));
      if (rest->range.lo >= 0 && rest->range.hi < divisor)
        return Factored{divisor, build(std::move(parts.multiple)), rest};
    }
    return std::nullopt;
  }

  // c*(x % n) + c*n*(x // n)  ->  c*x            (a quotient in its simplified form)
  // c*(x % a) + c*a*((x // a) % b)  ->  c*(x % (a*b))
  bool recombine(LinearForm& form) {
    for (size_t i = 0; i < form.terms.size(); ++i) {
      auto [remainder, c] = form.terms[i];
      if (!is_op_by_constant(remainder, ExprKind::kMod)) continue;
      ExprRef x = remainder->args[0];
      int64_t n = remainder->args[1]->ival;
      for (size_t j = 0; j < form.terms.size(); ++j) {
        auto [other, scale] = form.terms[j];
        if (i == j || scale != wrapping_mul(c, n)) continue;
        if (is_op_by_constant(other, ExprKind::kMod)) {
          int64_t b = other->args[1]->ival;
          if (b >= kBound / n || other->args[0] != floor_div(x, n)) continue;
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

  static void replace_two(LinearForm& form, size_t i, size_t j, ExprRef by, int64_t coefficient) {
    form.terms.erase(form.terms.begin() + static_cast<ptrdiff_t>(std::max(i, j)));
    form.terms.erase(form.terms.begin() + static_cast<ptrdiff_t>(std::min(i, j)));
    collect(by, coefficient, form);
  }

  ExprPool& pool_;
  simplify::Raw raw_;
};

Range clamp_to(DType dtype, Wide lo, Wide hi) {
  Range whole = range_of(dtype);
  if (lo < whole.lo || hi > whole.hi) return whole;
  return {static_cast<int64_t>(lo), static_cast<int64_t>(hi)};
}

Range product_range(DType dtype, Range a, Range b) {
  Wide corners[] = {Wide{a.lo} * b.lo, Wide{a.lo} * b.hi, Wide{a.hi} * b.lo, Wide{a.hi} * b.hi};
  auto [lo, hi] = std::ranges::minmax(corners);
  return clamp_to(dtype, lo, hi);
}

// The truth of a comparison where the ranges decide it.
std::optional<bool> decide(ExprKind kind, ExprRef a, ExprRef b) {
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

LinearForm linear_form(ExprRef expr) {
  LinearForm form;
  collect(expr, 1, form);
  sort_and_merge(form);
  return form;
}

bool is_bounded(Range range) { return range.lo > -kBound && range.hi < kBound; }

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

std::optional<int64_t> IndexInfo::stride(int axis) const {
  int64_t stride = 0;
  for (const auto& [atom, coefficient] : linear_form(index_).terms) {
    if (atom->kind == ExprKind::kAxis) {
      if (atom->ival == axis) stride = coefficient;
    } else if (loop::depends_on(atom, axis)) {
      return std::nullopt;
    }
  }
  return stride;
}

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
      if (a->range.lo < 0 || !b->is_constant() || b->ival <= 0) return nullptr;
      return pool.binary(kind == ExprKind::kFmod ? ExprKind::kMod : ExprKind::kFloorDiv, a, b);
    case ExprKind::kFloorDiv:
      if (!b->is_constant() || b->ival <= 0) return nullptr;
      if (is_index) return index.floor_div(a, b->ival);
      return b->ival == 1 ? a : nullptr;
    case ExprKind::kMod:
      return is_index && b->is_constant() && b->ival > 0 ? index.mod(a, b->ival) : nullptr;
    case ExprKind::kMin:
      return a->range.hi <= b->range.lo ? a : b->range.hi <= a->range.lo ? b : nullptr;
    case ExprKind::kMax:
      return a->range.lo >= b->range.hi ? a : b->range.lo >= a->range.hi ? b : nullptr;
    case ExprKind::kEq:
    case ExprKind::kNe:
    case ExprKind::kLt:
    case ExprKind::kLe: {
      auto truth = decide(kind, a, b);
      return truth ? pool.integer(*truth, DType::kBool) : nullptr;
    }
    case ExprKind::kAnd:
    case ExprKind::kOr:
      if (a == b) return a;
      return dtype == DType::kBool ? logical(pool, kind, a, b) : nullptr;
    case ExprKind::kCheckIndex:
      return b->is_constant() && a->range.lo >= 0 && a->range.hi < b->ival ? a : nullptr;
    default:
      return nullptr;  // a table of rules, not a closed switch: most ops have none
  }
}

Range range_of_op(ExprKind kind, DType dtype, std::span<const ExprRef> args) {
  Range whole = range_of(dtype);
  if (graph::is_float(dtype) || graph::is_complex(dtype) || args.empty()) return whole;
  Range a = args[0]->range;
  Range b = args.size() > 1 ? args[1]->range : Range{};
  const bool by_constant = args.size() == 2 && args[1]->is_constant() && args[1]->ival > 0;
  switch (kind) {
    case ExprKind::kCast:
      if (graph::is_float(args[0]->dtype) || dtype == DType::kBool) return whole;
      return clamp_to(dtype, a.lo, a.hi);
    case ExprKind::kNeg:
      return clamp_to(dtype, -Wide{a.hi}, -Wide{a.lo});
    case ExprKind::kAdd:
      return clamp_to(dtype, Wide{a.lo} + b.lo, Wide{a.hi} + b.hi);
    case ExprKind::kSub:
      return clamp_to(dtype, Wide{a.lo} - b.hi, Wide{a.hi} - b.lo);
    case ExprKind::kMul:
      return product_range(dtype, a, b);
    case ExprKind::kMin:
      return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    case ExprKind::kMax:
      return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    case ExprKind::kFloorDiv:
      if (!by_constant) return whole;
      return {floor_quotient(a.lo, b.lo), floor_quotient(a.hi, b.lo)};
    case ExprKind::kMod:
      if (!by_constant) return whole;
      return a.lo >= 0 ? Range{0, std::min(a.hi, b.lo - 1)} : Range{0, b.lo - 1};
    case ExprKind::kAnd:
      if (dtype != DType::kBool && by_constant) return {0, b.lo};
      return whole;
    case ExprKind::kWhere:
    case ExprKind::kMasked: {
      Range c = args[2]->range;
      return {std::min(b.lo, c.lo), std::max(b.hi, c.hi)};
    }
    case ExprKind::kCheckIndex: {
      int64_t hi = std::max<int64_t>(0, std::min(a.hi, b.hi - 1));
      return {std::clamp<int64_t>(a.lo, 0, hi), hi};
    }
    default:
      return whole;  // a table of rules, not a closed switch: the rest may be anything
  }
}

}  // namespace simplify

}  // namespace braze::loop
