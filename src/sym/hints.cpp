#include "sym/hints.h"

#include <algorithm>

namespace braze::sym {
namespace {

// What must be added to `a - b`, `difference` now, for the condition to hold.
int64_t missing(Relation relation, int64_t difference) {
  switch (relation) {
    case Relation::kEqual:
    case Relation::kNotLess:
      return -difference;
    case Relation::kNotEqual:
      return 1;
    case Relation::kLess:
      return -1 - difference;
  }
  BRAZE_UNREACHABLE("relation");
}

// Away from zero, so that what is missing is there.
int64_t quotient_outwards(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  if (a % b == 0) return quotient;
  return (a < 0) == (b < 0) ? quotient + 1 : quotient - 1;
}

struct Search {
  const ExprArena& arena;
  const std::vector<bool>& movable;
  std::vector<int64_t> values;

  // `coefficient * symbol` shall become larger by `wanted`, as far as the range lets it.
  bool move(const Expr* symbol, int64_t coefficient, int64_t wanted) {
    if (symbol->kind != ExprKind::kSymbol || !movable[symbol->symbol]) return false;
    const Range range = arena.range(symbol->symbol);
    int64_t& value = values[symbol->symbol];
    const int64_t old = value;
    value = std::clamp(value + quotient_outwards(wanted, coefficient), range.low, range.high);
    return value != old;
  }

  // Whether a value has been changed for the condition's sake.
  bool satisfy(const Condition& condition) {
    const Int difference = condition.a - condition.b;
    if (difference.is_constant()) return false;
    const Expr* e = difference.expr();
    if (e->kind != ExprKind::kSum)
      return move(e, 1, missing(condition.relation, evaluate(difference, values)));
    bool moved = false;
    for (const auto& [term, coefficient] : e->terms) {
      if (holds(condition, values)) break;
      moved |= move(term, coefficient, missing(condition.relation, evaluate(difference, values)));
    }
    return moved;
  }
};

}  // namespace

std::vector<int64_t> possible_hints(const ExprArena& arena, const std::vector<bool>& movable,
                                    const std::vector<Condition>& conditions) {
  Search search{.arena = arena, .movable = movable, .values = {}};
  for (int i = 0; i < arena.symbol_count(); ++i) {
    const int64_t hint = arena.symbol_expr(i)->hint;
    const Range range = arena.range(i);
    search.values.push_back(movable[i] ? std::clamp(hint, range.low, range.high) : hint);
  }
  constexpr int kRounds = 8;
  for (int round = 0; round < kRounds; ++round) {
    bool moved = false;
    for (const Condition& condition : conditions)
      if (!holds(condition, search.values)) moved |= search.satisfy(condition);
    if (!moved) break;
  }
  return search.values;
}

}  // namespace braze::sym
