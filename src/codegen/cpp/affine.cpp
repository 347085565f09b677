#include "codegen/cpp/affine.h"

#include <algorithm>

#include "sym/facts.h"

namespace braze::codegen::cpp {

using loop::ExprKind;
using loop::ExprRef;

namespace {

void add_scaled(Affine& into, const Affine& form, sym::Int factor) {
  into.constant = into.constant + form.constant * factor;
  if (into.coefficient.size() < form.coefficient.size())
    into.coefficient.resize(form.coefficient.size());
  for (size_t a = 0; a < form.coefficient.size(); ++a)
    into.coefficient[a] = into.coefficient[a] + form.coefficient[a] * factor;
  for (const auto& [term, weight] : form.terms) {
    auto same = std::find_if(into.terms.begin(), into.terms.end(),
                             [term = term](const auto& t) { return t.first == term; });
    if (same == into.terms.end())
      into.terms.emplace_back(term, weight * factor);
    else if ((same->second = same->second + weight * factor) == sym::Int(0))
      into.terms.erase(same);
  }
}

// floor(form / divisor) and the remainder, where both are linear: the form is
// divisor * quotient + rest with 0 <= rest < divisor for all values of the axes.
struct Division {
  Affine quotient;
  Affine rest;
};
std::optional<Division> divide(const Affine& form, sym::Int divisor,
                               std::span<const sym::Int> extent) {
  Division result;
  const bool numbers = form.constant.is_constant() && divisor.is_constant();
  sym::Int quotient = 0;
  if (numbers)
    quotient = sym::floordiv(form.constant, divisor);
  else if (auto exact = sym::divide_exactly(form.constant, divisor))
    quotient = *exact;
  const sym::Int rest = form.constant - quotient * divisor;
  result.quotient.constant = quotient;
  result.rest.constant = rest;
  sym::Int low = rest;
  sym::Int high = rest;
  const size_t axes = form.coefficient.size();
  result.quotient.coefficient.resize(axes);
  result.rest.coefficient.resize(axes);
  for (size_t a = 0; a < axes; ++a) {
    const sym::Int c = form.coefficient[a];
    if (auto part = sym::divide_exactly(c, divisor)) {
      result.quotient.coefficient[a] = *part;
      continue;
    }
    result.rest.coefficient[a] = c;
    const bool rises = sym::known_positive(c);
    if (!rises && !sym::known_less(c, 0)) return std::nullopt;
    sym::Int& end = rises ? high : low;
    end = end + c * (extent[a] - sym::Int(1));
  }
  for (const auto& [term, weight] : form.terms) {
    auto part = sym::divide_exactly(weight, divisor);
    if (!part) return std::nullopt;
    result.quotient.terms.emplace_back(term, *part);
  }
  if (!sym::known_at_least(low, 0) || !sym::known_less(high, divisor)) return std::nullopt;
  return result;
}

}  // namespace

sym::Int Affine::stride(int axis) const {
  return static_cast<size_t>(axis) < coefficient.size() ? coefficient[axis] : sym::Int(0);
}

bool Affine::is_constant() const {
  return terms.empty() && std::all_of(coefficient.begin(), coefficient.end(),
                                      [](sym::Int c) { return c == sym::Int(0); });
}

Affine affine_of(ExprRef index, std::span<const sym::Int> extent) {
  Affine result;
  switch (index->kind) {
    case ExprKind::kConst:
      result.constant = index->ival;
      return result;
    case ExprKind::kSize:
      result.constant = index->size;
      return result;
    case ExprKind::kAxis:
      if (!is_trivial(extent[index->ival])) {
        result.coefficient.resize(index->ival + 1);
        result.coefficient[index->ival] = 1;
      }
      return result;
    case ExprKind::kAdd:
    case ExprKind::kSub:
      result = affine_of(index->args[0], extent);
      add_scaled(result, affine_of(index->args[1], extent), index->kind == ExprKind::kAdd ? 1 : -1);
      return result;
    case ExprKind::kNeg:
      add_scaled(result, affine_of(index->args[0], extent), -1);
      return result;
    case ExprKind::kMul: {
      const Affine a = affine_of(index->args[0], extent);
      const Affine b = affine_of(index->args[1], extent);
      if (b.is_constant()) {
        if (b.constant != sym::Int(0)) add_scaled(result, a, b.constant);
        return result;
      }
      if (a.is_constant()) {
        if (a.constant != sym::Int(0)) add_scaled(result, b, a.constant);
        return result;
      }
      break;
    }
    case ExprKind::kFloorDiv:
    case ExprKind::kMod: {
      const Affine divisor = affine_of(index->args[1], extent);
      if (!divisor.is_constant() || !sym::known_positive(divisor.constant)) break;
      auto parts = divide(affine_of(index->args[0], extent), divisor.constant, extent);
      if (!parts) break;
      return index->kind == ExprKind::kFloorDiv ? parts->quotient : parts->rest;
    }
    default:
      break;
  }
  result.terms.emplace_back(index, 1);
  return result;
}

namespace {

constexpr int64_t kLargest = int64_t{1} << 62;

bool is_small(sym::Int value) {
  return !value.is_constant() || (value.constant() >= -kLargest && value.constant() <= kLargest);
}

std::optional<Range> checked(sym::Int low, sym::Int high) {
  if (!is_small(low) || !is_small(high)) return std::nullopt;
  return Range{low, high};
}

bool would_overflow(const Range& a, const Range& b) {
  for (sym::Int x : {a.low, a.high})
    for (sym::Int y : {b.low, b.high}) {
      int64_t product = 0;
      if (x.is_constant() && y.is_constant() &&
          __builtin_mul_overflow(x.constant(), y.constant(), &product))
        return true;
    }
  return false;
}

std::optional<Range> range_product(const Range& a, const Range& b) {
  if (would_overflow(a, b)) return std::nullopt;
  if (sym::known_at_least(a.low, 0) && sym::known_at_least(b.low, 0))
    return checked(a.low * b.low, a.high * b.high);
  if (!a.low.is_constant() || !a.high.is_constant() || !b.low.is_constant() ||
      !b.high.is_constant())
    return std::nullopt;
  const auto [low, high] =
      std::minmax({a.low.constant() * b.low.constant(), a.low.constant() * b.high.constant(),
                   a.high.constant() * b.low.constant(), a.high.constant() * b.high.constant()});
  return checked(low, high);
}

}  // namespace

std::optional<Range> range_of(ExprRef expr, std::span<const sym::Int> extent) {
  const auto operand = [&](int i) { return range_of(expr->args[i], extent); };
  switch (expr->kind) {
    case ExprKind::kConst:
      return checked(expr->ival, expr->ival);
    case ExprKind::kSize:
      return Range{expr->size, expr->size};
    case ExprKind::kAxis:
      return Range{0, sym::max(extent[expr->ival] - sym::Int(1), 0)};
    case ExprKind::kNeg:
      if (auto a = operand(0)) return checked(sym::Int(0) - a->high, sym::Int(0) - a->low);
      return std::nullopt;
    case ExprKind::kAdd:
    case ExprKind::kSub:
    case ExprKind::kMul:
    case ExprKind::kMin:
    case ExprKind::kMax: {
      const auto a = operand(0);
      const auto b = operand(1);
      if (!a || !b) return std::nullopt;
      if (expr->kind == ExprKind::kAdd) return checked(a->low + b->low, a->high + b->high);
      if (expr->kind == ExprKind::kSub) return checked(a->low - b->high, a->high - b->low);
      if (expr->kind == ExprKind::kMin)
        return checked(sym::min(a->low, b->low), sym::min(a->high, b->high));
      if (expr->kind == ExprKind::kMax)
        return checked(sym::max(a->low, b->low), sym::max(a->high, b->high));
      return range_product(*a, *b);
    }
    case ExprKind::kFloorDiv:
    case ExprKind::kMod: {
      const auto a = operand(0);
      const auto b = operand(1);
      if (!a || !b || b->low != b->high || !sym::known_positive(b->low)) return std::nullopt;
      if (expr->kind == ExprKind::kMod) return Range{0, b->low - sym::Int(1)};
      return Range{sym::floordiv(a->low, b->low), sym::floordiv(a->high, b->low)};
    }
    default:
      return std::nullopt;
  }
}

bool fits_int32(ExprRef expr, std::span<const sym::Int> extent, Limits& limits) {
  if (expr->dtype != graph::DType::kInt64) return false;
  const auto range = range_of(expr, extent);
  constexpr int64_t kLimit = int64_t{1} << 31;
  if (!range || range->low.hint() < -kLimit || range->high.hint() >= kLimit) return false;
  const size_t before = limits.size();
  for (sym::Int end : {range->low, range->high})
    if (!end.is_constant() && std::find(limits.begin(), limits.end(), end) == limits.end())
      limits.push_back(end);
  const bool fit = std::all_of(expr->args.begin(), expr->args.end(),
                               [&](ExprRef arg) { return fits_int32(arg, extent, limits); });
  if (!fit) limits.resize(before);
  return fit;
}

}  // namespace braze::codegen::cpp
