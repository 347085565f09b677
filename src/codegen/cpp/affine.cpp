#include "codegen/cpp/affine.h"

#include <algorithm>

namespace braze::codegen::cpp {

using loop::ExprKind;
using loop::ExprRef;

namespace {

void add_scaled(Affine& into, const Affine& form, int64_t factor) {
  into.constant += form.constant * factor;
  if (into.coefficient.size() < form.coefficient.size())
    into.coefficient.resize(form.coefficient.size());
  for (size_t a = 0; a < form.coefficient.size(); ++a)
    into.coefficient[a] += form.coefficient[a] * factor;
  for (const auto& [term, weight] : form.terms) {
    auto same = std::find_if(into.terms.begin(), into.terms.end(),
                             [term = term](const auto& t) { return t.first == term; });
    if (same == into.terms.end())
      into.terms.emplace_back(term, weight * factor);
    else if ((same->second += weight * factor) == 0)
      into.terms.erase(same);
  }
}

// floor(form / divisor) and the remainder, where both are linear: the form is
// divisor * quotient + rest with 0 <= rest < divisor for all values of the axes.
struct Division {
  Affine quotient;
  Affine rest;
};
std::optional<Division> divide(const Affine& form, int64_t divisor,
                               std::span<const int64_t> extent) {
  Division result;
  int64_t quotient = form.constant / divisor;
  int64_t rest = form.constant % divisor;
  if (rest < 0) rest += divisor, --quotient;
  result.quotient.constant = quotient;
  result.rest.constant = rest;
  int64_t low = rest;
  int64_t high = rest;
  const size_t axes = form.coefficient.size();
  result.quotient.coefficient.resize(axes);
  result.rest.coefficient.resize(axes);
  for (size_t a = 0; a < axes; ++a) {
    const int64_t c = form.coefficient[a];
    if (c % divisor == 0) {
      result.quotient.coefficient[a] = c / divisor;
      continue;
    }
    result.rest.coefficient[a] = c;
    (c > 0 ? high : low) += c * (extent[a] - 1);
  }
  for (const auto& [term, weight] : form.terms) {
    if (weight % divisor != 0) return std::nullopt;
    result.quotient.terms.emplace_back(term, weight / divisor);
  }
  if (low < 0 || high >= divisor) return std::nullopt;
  return result;
}

}  // namespace

int64_t Affine::stride(int axis) const {
  return static_cast<size_t>(axis) < coefficient.size() ? coefficient[axis] : 0;
}

bool Affine::is_constant() const {
  return terms.empty() &&
         std::all_of(coefficient.begin(), coefficient.end(), [](int64_t c) { return c == 0; });
}

Affine affine_of(ExprRef index, std::span<const int64_t> extent) {
  Affine result;
  switch (index->kind) {
    case ExprKind::kConst:
      result.constant = index->ival;
      return result;
    case ExprKind::kAxis:
      if (extent[index->ival] > 1) {
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
        if (b.constant != 0) add_scaled(result, a, b.constant);
        return result;
      }
      if (a.is_constant()) {
        if (a.constant != 0) add_scaled(result, b, a.constant);
        return result;
      }
      break;
    }
    case ExprKind::kFloorDiv:
    case ExprKind::kMod: {
      const Affine divisor = affine_of(index->args[1], extent);
      if (!divisor.is_constant() || divisor.constant <= 0) break;
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

std::optional<Range> range_of(ExprRef expr, std::span<const int64_t> extent) {
  const auto operand = [&](int i) { return range_of(expr->args[i], extent); };
  const auto checked = [](__int128 low, __int128 high) -> std::optional<Range> {
    constexpr __int128 kLimit = static_cast<__int128>(1) << 62;
    if (low < -kLimit || high > kLimit) return std::nullopt;
    return Range{static_cast<int64_t>(low), static_cast<int64_t>(high)};
  };
  switch (expr->kind) {
    case ExprKind::kConst:
      return Range{expr->ival, expr->ival};
    case ExprKind::kAxis:
      return Range{0, std::max<int64_t>(extent[expr->ival] - 1, 0)};
    case ExprKind::kNeg:
      if (auto a = operand(0))
        return checked(-static_cast<__int128>(a->high), -static_cast<__int128>(a->low));
      return std::nullopt;
    case ExprKind::kAdd:
    case ExprKind::kSub:
    case ExprKind::kMul:
    case ExprKind::kMin:
    case ExprKind::kMax: {
      const auto a = operand(0);
      const auto b = operand(1);
      if (!a || !b) return std::nullopt;
      const __int128 al = a->low, ah = a->high, bl = b->low, bh = b->high;
      if (expr->kind == ExprKind::kAdd) return checked(al + bl, ah + bh);
      if (expr->kind == ExprKind::kSub) return checked(al - bh, ah - bl);
      if (expr->kind == ExprKind::kMin) return checked(std::min(al, bl), std::min(ah, bh));
      if (expr->kind == ExprKind::kMax) return checked(std::max(al, bl), std::max(ah, bh));
      const __int128 corner[] = {al * bl, al * bh, ah * bl, ah * bh};
      return checked(*std::min_element(corner, corner + 4), *std::max_element(corner, corner + 4));
    }
    case ExprKind::kFloorDiv:
    case ExprKind::kMod: {
      const auto a = operand(0);
      const auto b = operand(1);
      if (!a || !b || b->low != b->high || b->low <= 0) return std::nullopt;
      if (expr->kind == ExprKind::kMod) return Range{0, b->low - 1};
      const auto floor = [d = b->low](int64_t x) { return x / d - (x % d < 0); };
      return Range{floor(a->low), floor(a->high)};
    }
    default:
      return std::nullopt;
  }
}

bool fits_int32(ExprRef expr, std::span<const int64_t> extent) {
  if (expr->dtype != graph::DType::kInt64) return false;
  const auto range = range_of(expr, extent);
  constexpr int64_t kLimit = int64_t{1} << 31;
  if (!range || range->low < -kLimit || range->high >= kLimit) return false;
  return std::all_of(expr->args.begin(), expr->args.end(),
                     [&](ExprRef arg) { return fits_int32(arg, extent); });
}

}  // namespace braze::codegen::cpp
