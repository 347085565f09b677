#include "sym/shape_env.h"

#include <algorithm>

#include "sym/expr.h"

namespace braze::sym {
namespace {

enum class Relation : uint8_t { kEqual, kNotEqual, kLess, kNotLess };

std::string_view text_of(Relation relation) {
  switch (relation) {
    case Relation::kEqual:
      return " == ";
    case Relation::kNotEqual:
      return " != ";
    case Relation::kLess:
      return " < ";
    case Relation::kNotLess:
      return " >= ";
  }
  BRAZE_UNREACHABLE("relation");
}

struct Condition {
  Relation relation;
  Int a, b;
  friend bool operator==(const Condition&, const Condition&) = default;
};

std::string to_string(const Condition& condition) {
  // A constant stands on the right, as people write it: "s0 > 3", not "3 < s0".
  if (condition.a.is_constant()) {
    const std::string_view flipped = condition.relation == Relation::kLess ? " > "
                                     : condition.relation == Relation::kNotLess
                                         ? " <= "
                                         : text_of(condition.relation);
    return sym::to_string(condition.b) + std::string(flipped) + sym::to_string(condition.a);
  }
  return sym::to_string(condition.a) + std::string(text_of(condition.relation)) +
         sym::to_string(condition.b);
}

bool holds(const Condition& condition, std::span<const int64_t> values) {
  const int64_t a = evaluate(condition.a, values), b = evaluate(condition.b, values);
  switch (condition.relation) {
    case Relation::kEqual:
      return a == b;
    case Relation::kNotEqual:
      return a != b;
    case Relation::kLess:
      return a < b;
    case Relation::kNotLess:
      return a >= b;
  }
  BRAZE_UNREACHABLE("relation");
}

}  // namespace

struct ShapeEnv::Impl {
  ExprArena arena;
  std::vector<Condition> conditions;
  std::vector<Guard> guards;

  bool known(const Condition& condition) const {
    return std::find(conditions.begin(), conditions.end(), condition) != conditions.end();
  }

  void record(const Condition& condition) {
    conditions.push_back(condition);
    guards.push_back({to_string(condition)});
    narrow(condition);
  }

  // A guard on `symbol + constant` narrows the range of the symbol.
  void narrow(const Condition& condition) {
    const Int difference = condition.a - condition.b;
    if (difference.is_constant()) return;
    const Expr* e = difference.expr();
    int64_t scale = 1, constant = 0;
    if (e->kind == ExprKind::kSum) {
      if (e->terms.size() != 1) return;
      constant = e->constant;
      scale = e->terms[0].second;
      e = e->terms[0].first;
    }
    if (e->kind != ExprKind::kSymbol || (scale != 1 && scale != -1)) return;
    Range& range = arena.range(e->symbol);
    // scale * symbol + constant RELATION 0, that is symbol RELATION bound (or reversed).
    const int64_t bound = -constant * scale;
    const bool reversed = scale < 0;
    switch (condition.relation) {
      case Relation::kEqual:
        range = {bound, bound};
        return;
      case Relation::kNotEqual:
        return;
      case Relation::kLess:
        if (reversed)
          range.low = std::max(range.low, bound + 1);
        else
          range.high = std::min(range.high, bound - 1);
        return;
      case Relation::kNotLess:
        if (reversed)
          range.high = std::min(range.high, bound);
        else
          range.low = std::max(range.low, bound);
        return;
    }
  }

  // `if_true` or `if_false`, whichever holds for the hints, becomes a guard unless it is known.
  bool decide(bool hint, const Condition& if_true, const Condition& if_false) {
    if (known(if_true)) return true;
    if (known(if_false)) return false;
    record(hint ? if_true : if_false);
    return hint;
  }
};

ShapeEnv::ShapeEnv() : impl_(std::make_unique<Impl>()) {}
ShapeEnv::~ShapeEnv() = default;

Int ShapeEnv::symbol(const std::string& name, int64_t hint, bool specialise) {
  const Int symbol(impl_->arena.symbol(name, hint, {0, INT64_MAX}));
  if (specialise || hint < 2) return guard_int(symbol);
  impl_->record({Relation::kNotLess, symbol, 2});
  return symbol;
}

bool ShapeEnv::guard_eq(Int a, Int b) {
  const Int difference = a - b;
  const Range range = impl_->arena.range_of(difference);
  if (range.low > 0 || range.high < 0) return false;
  if (range.is_point()) return true;
  return impl_->decide(difference.hint() == 0, {Relation::kEqual, a, b},
                       {Relation::kNotEqual, a, b});
}

bool ShapeEnv::guard_lt(Int a, Int b) {
  const Range range = impl_->arena.range_of(a - b);
  if (range.high < 0) return true;
  if (range.low >= 0) return false;
  return impl_->decide(a.hint() < b.hint(), {Relation::kLess, a, b}, {Relation::kNotLess, a, b});
}

int64_t ShapeEnv::guard_int(Int a) {
  if (a.is_constant()) return a.constant();
  guard_eq(a, a.hint());
  return a.hint();
}

const std::vector<ShapeEnv::Guard>& ShapeEnv::guards() const { return impl_->guards; }

bool ShapeEnv::holds(std::span<const int64_t> values) const {
  BRAZE_CHECK(static_cast<int>(values.size()) == symbol_count(), "one value for each symbol");
  for (const Condition& condition : impl_->conditions) {
    if (!sym::holds(condition, values)) return false;
  }
  return true;
}

int ShapeEnv::symbol_count() const { return impl_->arena.symbol_count(); }

}  // namespace braze::sym
