#include <algorithm>

#include "loop/linear_form.h"
#include "loop/scalar.h"
#include "loop/simplify.h"

namespace braze::loop::simplify {
namespace {

using Wide = __int128;

Range clamp_to(DType dtype, Wide lo, Wide hi) {
  Range whole = range_of(dtype);
  if (lo < whole.lo || hi > whole.hi) return whole;
  return {static_cast<int64_t>(lo), static_cast<int64_t>(hi)};
}

// The range of index arithmetic over sizes. It never overflows, so where the ranges of the sizes
// make the range too wide it is cut off.
Range range_over_sizes(std::span<const ExprRef> args, DType dtype, Wide lo, Wide hi) {
  const bool symbolic =
      dtype == DType::kInt64 &&
      std::ranges::any_of(args, [](ExprRef arg) { return arg->symbolic; }) &&
      std::ranges::all_of(args, [](ExprRef arg) { return is_bounded(arg->range); });
  if (!symbolic) return clamp_to(dtype, lo, hi);
  const auto cut = [](Wide end) {
    return static_cast<int64_t>(std::clamp<Wide>(end, 1 - kBound, kBound - 1));
  };
  return {cut(lo), cut(hi)};
}

Range product_range(DType dtype, std::span<const ExprRef> args) {
  const Range a = args[0]->range, b = args[1]->range;
  Wide corners[] = {Wide{a.lo} * b.lo, Wide{a.lo} * b.hi, Wide{a.hi} * b.lo, Wide{a.hi} * b.hi};
  auto [lo, hi] = std::ranges::minmax(corners);
  return range_over_sizes(args, dtype, lo, hi);
}

}  // namespace

Range range_of_op(ExprKind kind, DType dtype, std::span<const ExprRef> args) {
  Range whole = range_of(dtype);
  if (graph::is_float(dtype) || graph::is_complex(dtype) || args.empty()) return whole;
  Range a = args[0]->range;
  Range b = args.size() > 1 ? args[1]->range : Range{};
  const bool by_constant = args.size() == 2 && args[1]->is_constant() && args[1]->ival > 0;
  const bool by_size = args.size() == 2 && args[1]->kind == ExprKind::kSize && b.lo > 0;
  switch (kind) {
    case ExprKind::kCast:
      if (graph::is_float(args[0]->dtype) || dtype == DType::kBool) return whole;
      return clamp_to(dtype, a.lo, a.hi);
    case ExprKind::kNeg:
      return clamp_to(dtype, -Wide{a.hi}, -Wide{a.lo});
    case ExprKind::kAdd:
      return range_over_sizes(args, dtype, Wide{a.lo} + b.lo, Wide{a.hi} + b.hi);
    case ExprKind::kSub:
      return range_over_sizes(args, dtype, Wide{a.lo} - b.hi, Wide{a.hi} - b.lo);
    case ExprKind::kMul:
      return product_range(dtype, args);
    case ExprKind::kMin:
      return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    case ExprKind::kMax:
      return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    case ExprKind::kFloorDiv:
      if (by_size)
        return {a.lo >= 0 ? 0 : sym::floordiv(a.lo, b.lo),
                a.hi >= 0 ? sym::floordiv(a.hi, b.lo) : -1};
      if (!by_constant) return whole;
      return {sym::floordiv(a.lo, b.lo), sym::floordiv(a.hi, b.lo)};
    case ExprKind::kMod:
      if (!by_constant && !by_size) return whole;
      return a.lo >= 0 ? Range{0, std::min(a.hi, b.hi - 1)} : Range{0, b.hi - 1};
    case ExprKind::kAnd:
      if (dtype != DType::kBool && by_constant) return {0, b.lo};
      return dtype != DType::kBool && a.lo >= 0 ? Range{0, a.hi} : whole;
    case ExprKind::kShr:
      return a.lo >= 0 && by_constant && b.lo < 63 ? Range{a.lo >> b.lo, a.hi >> b.lo} : whole;
    case ExprKind::kWhere:
    case ExprKind::kMasked: {
      Range c = args[2]->range;
      return {std::min(b.lo, c.lo), std::max(b.hi, c.hi)};
    }
    case ExprKind::kAfter:
      return b;
    case ExprKind::kCheckIndex: {
      int64_t hi = std::max<int64_t>(0, std::min(a.hi, b.hi - 1));
      return {std::clamp<int64_t>(a.lo, 0, hi), hi};
    }
    default:
      return whole;  // a table of rules, not a closed switch: the rest may be anything
  }
}

}  // namespace braze::loop::simplify
