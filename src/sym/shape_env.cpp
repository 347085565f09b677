#include "sym/shape_env.h"

#include <algorithm>

#include "sym/expr.h"
#include "sym/hints.h"

namespace braze::sym {
namespace {

// A condition on `symbol + constant` narrows the range of the symbol. Whether the range now says
// all that the condition does.
bool narrow(ExprArena& arena, const Condition& condition) {
  const Int difference = condition.a - condition.b;
  if (difference.is_constant()) return false;
  const Expr* e = difference.expr();
  int64_t scale = 1, constant = 0;
  if (e->kind == ExprKind::kSum) {
    if (e->terms.size() != 1) return false;
    constant = e->constant;
    scale = e->terms[0].second;
    e = e->terms[0].first;
  }
  if (e->kind != ExprKind::kSymbol || (scale != 1 && scale != -1)) return false;
  const int symbol = e->symbol;
  Range range = arena.range(symbol);
  // scale * symbol + constant RELATION 0, that is symbol RELATION bound (or reversed).
  const int64_t bound = -constant * scale;
  const bool reversed = scale < 0;
  const bool is_range = condition.relation != Relation::kNotEqual;
  switch (condition.relation) {
    case Relation::kEqual:
      range = {bound, bound};
      break;
    case Relation::kNotEqual:
      if (range.low == bound) ++range.low;
      if (range.high == bound) --range.high;
      break;
    case Relation::kLess:
      if (reversed)
        range.low = std::max(range.low, bound + 1);
      else
        range.high = std::min(range.high, bound - 1);
      break;
    case Relation::kNotLess:
      if (reversed)
        range.high = std::min(range.high, bound);
      else
        range.low = std::max(range.low, bound);
      break;
  }
  arena.set_range(symbol, range);
  return is_range;
}

}  // namespace

struct ShapeEnv::Impl {
  ExprArena arena;
  std::vector<Condition> conditions;
  mutable std::vector<Guard> guards;  // by condition; the texts of the last ones may be missing
  mutable size_t texts = 0;
  std::vector<Int> facts;       // by symbol: what equalities have shown it to be, else the symbol
  bool has_facts = false;       // some symbol is not itself
  std::vector<int> settled_by;  // by symbol: the guard that made it a constant, -1: none
  std::function<std::string()> observer;
  std::vector<bool> unbacked;                  // by symbol
  std::vector<bool> any_integer;               // by symbol: not a size
  std::vector<std::optional<int64_t>> values;  // of unbacked symbols that a call brings
  bool has_unbacked = false;
  std::vector<Condition> assertions;  // on unbacked symbols, in order

  // By expression: what it was replaced by, and under which facts and ranges.
  struct Known {
    uint64_t version = 0;
    Int value;
  };
  mutable std::vector<Known> normals;
  uint64_t facts_version = 0;

  Int normal(Int a) const {
    if (!has_facts || a.is_constant()) return a;
    const uint64_t version = facts_version + arena.version();  // both only grow
    const size_t id = a.expr()->id;
    if (id < normals.size() && normals[id].version == version) return normals[id].value;
    const Int value = replace(a, facts);
    if (normals.size() <= id) normals.resize(std::max(id + 1, 2 * normals.size()));
    normals[id] = {version, value};
    return value;
  }

  Int add_symbol(const std::string& name, int64_t hint, Range range) {
    settled_by.push_back(-1);
    unbacked.push_back(false);
    any_integer.push_back(false);
    values.emplace_back();
    facts.push_back(Int(arena.symbol(name, hint, range)));
    return facts.back();
  }

  bool known(const Condition& condition) const {
    return std::find(conditions.begin(), conditions.end(), condition) != conditions.end();
  }

  void record(const Condition& condition) {
    conditions.push_back(condition);
    guards.push_back({"", observer ? observer() : std::string()});
    narrow(arena, condition);
    if (condition.relation == Relation::kEqual) learn(condition.a - condition.b);
  }

  // Most guards are never shown.
  void write_texts() const {
    for (; texts < guards.size(); ++texts) guards[texts].text = to_string(conditions[texts]);
  }

  // `difference` is 0: solves for the newest symbol that stands alone in it.
  void learn(Int difference) {
    difference = normal(difference);
    if (difference.is_constant()) return;
    const Expr* e = difference.expr();
    if (e->kind == ExprKind::kSymbol) return determine(e, 0);
    if (e->kind != ExprKind::kSum) return;
    for (size_t i = e->terms.size(); i-- > 0;) {
      const auto [term, coefficient] = e->terms[i];
      if (term->kind != ExprKind::kSymbol || (coefficient != 1 && coefficient != -1)) continue;
      const Int rest = difference - Int(coefficient) * Int(term);
      if (mentions(rest, term)) continue;
      return determine(term, Int(-coefficient) * rest);
    }
  }

  static bool mentions(Int value, const Expr* symbol) {
    if (value.is_constant()) return false;
    const Expr* e = value.expr();
    if (e == symbol || mentions(e->a, symbol) || mentions(e->b, symbol)) return true;
    return std::any_of(e->terms.begin(), e->terms.end(),
                       [&](const auto& term) { return mentions(Int(term.first), symbol); });
  }

  void determine(const Expr* symbol, Int value) {
    std::vector<Int> step;
    for (int i = 0; i < arena.symbol_count(); ++i) step.emplace_back(arena.symbol_expr(i));
    step[symbol->symbol] = value;
    for (size_t i = 0; i < facts.size(); ++i) {
      const bool before = facts[i].is_constant();
      facts[i] = replace(facts[i], step);
      if (!before && facts[i].is_constant()) settled_by[i] = static_cast<int>(guards.size()) - 1;
    }
    has_facts = true;
    ++facts_version;
  }

  // Multiples of `a // c` are multiples of `a` where a guard says that c divides a.
  Int use_divisibility(Int value) const {
    if (value.is_constant()) return value;
    const Expr* e = value.expr();
    auto exact = [&](const Expr* term, int64_t coefficient) {
      if (term->kind != ExprKind::kFloorDiv || !term->b.is_constant()) return false;
      if (coefficient % term->b.constant() != 0) return false;
      const Condition divides{Relation::kEqual, mod(term->a, term->b), 0};
      return divides.a == Int(0) || known(divides);
    };
    if (e->kind != ExprKind::kSum) return value;
    Int result = value;
    for (auto& [term, coefficient] : e->terms) {
      if (!exact(term, coefficient)) continue;
      result =
          result - Int(coefficient) * Int(term) + Int(coefficient / term->b.constant()) * term->a;
    }
    return result;
  }

  bool mentions_unbacked(Int value) const { return mentions(value, unbacked); }
  static bool mentions(Int value, const std::vector<bool>& symbols) {
    if (value.is_constant()) return false;
    const Expr* e = value.expr();
    if (e->kind == ExprKind::kSymbol) return symbols[e->symbol];
    return mentions(e->a, symbols) || mentions(e->b, symbols) ||
           std::any_of(e->terms.begin(), e->terms.end(),
                       [&](const auto& term) { return mentions(Int(term.first), symbols); });
  }

  // False if the values of this call are known and say otherwise.
  bool may_hold(const Condition& condition) const {
    std::vector<Int> known;
    for (int i = 0; i < arena.symbol_count(); ++i) {
      const Expr* symbol = arena.symbol_expr(i);
      if (unbacked[i])
        known.push_back(values[i] ? Int(*values[i]) : Int(symbol));
      else
        known.emplace_back(symbol->hint);
    }
    const Condition now = replace(condition, known);
    if (!now.a.is_constant() || !now.b.is_constant()) return true;
    return sym::holds(now, {});
  }

  // Whether assertions imply that `value` <= 0: one of them bounds it but for a constant.
  bool asserted_not_positive(Int value) const {
    auto follows = [&](Int bounded, int64_t bound) {  // of bounded <= bound
      const Int rest = value - bounded;
      return rest.is_constant() && rest.constant() + bound <= 0;
    };
    return std::any_of(assertions.begin(), assertions.end(), [&](const Condition& known) {
      const Int difference = known.a - known.b;
      switch (known.relation) {
        case Relation::kEqual:
          return follows(difference, 0) || follows(Int(-1) * difference, 0);
        case Relation::kLess:
          return follows(difference, -1);
        case Relation::kNotLess:
          return follows(Int(-1) * difference, 0);
        case Relation::kNotEqual:
          return false;
      }
      BRAZE_UNREACHABLE("relation");
    });
  }

  std::optional<bool> less_by_assertions(Int difference) const {
    if (asserted_not_positive(difference + 1)) return true;
    if (asserted_not_positive(Int(-1) * difference)) return false;
    return std::nullopt;
  }

  std::optional<bool> equal_by_assertions(Int difference) const {
    const Int negated = Int(-1) * difference;
    if (asserted_not_positive(difference) && asserted_not_positive(negated)) return true;
    if (asserted_not_positive(difference + 1) || asserted_not_positive(negated + 1)) return false;
    for (const Condition& known : assertions) {
      if (known.relation != Relation::kNotEqual) continue;
      const Int other = known.a - known.b;
      if (other == difference || other == negated) return false;
    }
    return std::nullopt;
  }

  // What ranges and assertions say, without a guard.
  std::optional<bool> answer(bool equality, Int difference) const {
    const Range range = arena.range_of(difference);
    if (equality) {
      if (range.low > 0 || range.high < 0) return false;
      if (range.is_point()) return true;
      return assertions.empty() ? std::nullopt : equal_by_assertions(difference);
    }
    if (range.high < 0) return true;
    if (range.low >= 0) return false;
    return assertions.empty() ? std::nullopt : less_by_assertions(difference);
  }

  // `if_true` or `if_false`, whichever holds for the hints, becomes a guard unless it is known.
  bool decide(bool hint, const Condition& if_true, const Condition& if_false) {
    if (known(if_true)) return true;
    if (known(if_false)) return false;
    if (has_unbacked && (mentions_unbacked(if_true.a) || mentions_unbacked(if_true.b)))
      throw Undecidable(to_string(if_true));
    record(hint ? if_true : if_false);
    return hint;
  }
};

ShapeEnv::ShapeEnv() : impl_(std::make_unique<Impl>()) {}
ShapeEnv::~ShapeEnv() = default;

Int ShapeEnv::symbol(const std::string& name, int64_t hint, bool specialise) {
  const Int symbol = impl_->add_symbol(name, hint, {0, INT64_MAX});
  if (specialise || hint < 2) return guard_int(symbol);
  impl_->record({Relation::kNotLess, symbol, 2});
  return symbol;
}

Int ShapeEnv::symbol(const std::string& name, int64_t hint, Range range) {
  BRAZE_CHECK(range.low <= hint && hint <= range.high, "the hint of ", name,
              " is outside of its range");
  const Int symbol = impl_->add_symbol(name, hint, {});
  impl_->any_integer.back() = range.low < 0;
  if (range.low != INT64_MIN) impl_->record({Relation::kNotLess, symbol, range.low});
  if (range.high != INT64_MAX) impl_->record({Relation::kLess, symbol, range.high + 1});
  return symbol;
}

Int ShapeEnv::unbacked(const std::string& name, int64_t hint, Range range,
                       std::optional<int64_t> value) {
  const Int symbol = impl_->add_symbol(name, hint, range);
  impl_->values.back() = value;
  impl_->unbacked.back() = impl_->has_unbacked = true;
  impl_->any_integer.back() = range.low < 0;
  return symbol;
}

bool ShapeEnv::is_unbacked(int symbol) const { return impl_->unbacked[symbol]; }

bool ShapeEnv::mentions_unbacked(Int a) const {
  return impl_->has_unbacked && impl_->mentions_unbacked(impl_->normal(a));
}

std::optional<bool> ShapeEnv::known(Relation relation, Int a, Int b) {
  a = impl_->normal(a);
  b = impl_->normal(b);
  const bool equality = relation == Relation::kEqual || relation == Relation::kNotEqual;
  const bool negated = relation == Relation::kNotEqual || relation == Relation::kNotLess;
  const std::optional<bool> answer = impl_->answer(equality, impl_->use_divisibility(a - b));
  if (answer) return *answer != negated;
  if (impl_->mentions_unbacked(a) || impl_->mentions_unbacked(b)) return std::nullopt;
  return (equality ? guard_eq(a, b) : guard_lt(a, b)) != negated;
}

bool ShapeEnv::expect(Relation relation, Int a, Int b) {
  if (const std::optional<bool> answer = known(relation, a, b)) return *answer;
  const Condition condition{relation, impl_->normal(a), impl_->normal(b)};
  if (!impl_->may_hold(condition)) return false;
  impl_->assertions.push_back(condition);
  narrow(impl_->arena, condition);
  return true;
}

bool ShapeEnv::keep_within(Int a, int64_t limit, bool sizes_too) {
  a = impl_->normal(a);
  if (a.is_constant()) return -limit <= a.constant() && a.constant() <= limit;
  if (!sizes_too && !impl_->mentions(a, impl_->any_integer)) return true;
  if (mentions_unbacked(a))
    return expect(Relation::kNotLess, a, -limit) && expect(Relation::kNotLess, limit, a);
  return !guard_lt(a, -limit) && !guard_lt(limit, a);
}

namespace {
constexpr int64_t kLargestTerm = 1'000'000'000'000'000'000;
constexpr int64_t kLargestProduct = 4 * kLargestTerm, kLargestFactor = 2'000'000'000;
constexpr int64_t kLargestUsualFactor = int64_t{1} << 15;  // of a size of at most 2**47

// How often the value has one symbol as a factor, at most.
int power_in(Int value) {
  if (value.is_constant()) return 0;
  const Expr* e = value.expr();
  if (e->kind == ExprKind::kProduct) {
    int most = 1;
    for (auto first = e->terms.begin(); first != e->terms.end(); ++first)
      most = std::max(most, static_cast<int>(std::count_if(
                                e->terms.begin(), e->terms.end(),
                                [&](const auto& term) { return term.first == first->first; })));
    return most;
  }
  int most = std::max({1, power_in(e->a), power_in(e->b)});
  for (const auto& [term, coefficient] : e->terms) most = std::max(most, power_in(Int(term)));
  return most;
}
}  // namespace

bool ShapeEnv::may_add(Int a, Int b) {
  return keep_within(a, kLargestTerm) && keep_within(b, kLargestTerm);
}

bool ShapeEnv::may_multiply(Int a, Int b) {
  if (a.is_constant()) std::swap(a, b);
  if (!b.is_constant()) {
    // No memory holds a size to the third.
    int64_t now;
    if (__builtin_mul_overflow(a.hint(), b.hint(), &now)) return false;
    const bool is_power = power_in(a * b) > 2;
    return keep_within(a, kLargestFactor, is_power) && keep_within(b, kLargestFactor, is_power);
  }
  const int64_t factor = b.constant();
  if (factor == 0) return true;
  if (factor < -kLargestProduct || factor > kLargestProduct) return false;
  const int64_t size = std::abs(factor);
  return keep_within(a, kLargestProduct / size, size > kLargestUsualFactor);
}

const std::vector<Condition>& ShapeEnv::assertions() const { return impl_->assertions; }

bool ShapeEnv::guard_eq(Int a, Int b) {
  a = impl_->normal(a);
  b = impl_->normal(b);
  const Int difference = impl_->use_divisibility(a - b);
  if (const std::optional<bool> known = impl_->answer(true, difference)) return *known;
  return impl_->decide(difference.hint() == 0, {Relation::kEqual, a, b},
                       {Relation::kNotEqual, a, b});
}

bool ShapeEnv::guard_lt(Int a, Int b) {
  a = impl_->normal(a);
  b = impl_->normal(b);
  if (const std::optional<bool> known = impl_->answer(false, impl_->use_divisibility(a - b)))
    return *known;
  return impl_->decide(a.hint() < b.hint(), {Relation::kLess, a, b}, {Relation::kNotLess, a, b});
}

int64_t ShapeEnv::guard_int(Int a) {
  a = impl_->normal(a);
  if (a.is_constant()) return a.constant();
  if (const Range range = impl_->arena.range_of(a); range.is_point()) return range.low;
  if (mentions_unbacked(a)) throw Undecidable("the value of " + to_string(a));
  guard_eq(a, a.hint());
  return a.hint();
}

Int ShapeEnv::normal(Int a) const { return impl_->normal(a); }

Range ShapeEnv::range_of(Int a) const { return impl_->arena.range_of(impl_->normal(a)); }

const std::vector<ShapeEnv::Guard>& ShapeEnv::guards() const {
  impl_->write_texts();
  return impl_->guards;
}

bool ShapeEnv::holds(std::span<const int64_t> values) const {
  BRAZE_CHECK(static_cast<int>(values.size()) == symbol_count(), "one value for each symbol");
  return std::all_of(impl_->conditions.begin(), impl_->conditions.end(),
                     [&](const Condition& condition) { return sym::holds(condition, values); });
}

void ShapeEnv::set_observer(std::function<std::string()> observer) {
  impl_->observer = std::move(observer);
}

const ShapeEnv::Guard* ShapeEnv::why_constant(Int a) const {
  if (a.is_constant() || !impl_->normal(a).is_constant()) return nullptr;
  const Expr* e = a.expr();
  if (e->kind == ExprKind::kSymbol) {
    const int guard = impl_->settled_by[e->symbol];
    impl_->write_texts();
    return guard < 0 ? nullptr : &impl_->guards[guard];
  }
  for (auto& [term, coefficient] : e->terms)
    if (const Guard* guard = why_constant(Int(term))) return guard;
  const Guard* left = why_constant(e->a);
  return left ? left : why_constant(e->b);
}

int ShapeEnv::symbol_count() const { return impl_->arena.symbol_count(); }

namespace {

// True for all values of the symbols.
bool always_holds(const Condition& condition) {
  const Int difference = condition.a - condition.b;
  if (!difference.is_constant()) return false;
  return holds({condition.relation, difference, 0}, {});
}

}  // namespace

ShapeEnv::Settled ShapeEnv::settle() const {
  const ExprArena& old = impl_->arena;
  Settled settled{.arena = std::make_shared<ExprArena>()};
  std::vector<Condition> assertions;
  for (const Condition& assertion : impl_->assertions)
    assertions.push_back(replace(assertion, impl_->facts));
  const std::vector<int64_t> hints = possible_hints(old, impl_->unbacked, assertions);
  std::vector<Int> kept(old.symbol_count());
  for (int i = 0; i < old.symbol_count(); ++i) {
    if (impl_->facts[i] != Int(old.symbol_expr(i))) continue;
    const std::string name = "s" + std::to_string(settled.kept.size());
    kept[i] = Int(settled.arena->symbol(name, hints[i], old.range(i)));
    settled.kept.push_back(i);
  }
  for (const Int& fact : impl_->facts) settled.values.push_back(replace(fact, kept));
  std::vector<Condition> others;
  for (const Condition& condition : impl_->conditions) {
    const Condition left = replace(condition, settled.values);
    if (always_holds(left) || narrow(*settled.arena, left)) continue;
    if (std::find(others.begin(), others.end(), left) == others.end()) others.push_back(left);
  }
  for (const Condition& assertion : impl_->assertions)
    settled.assertions.push_back(replace(assertion, settled.values));
  // The ranges come first, as conditions of their own.
  for (int i = 0; i < settled.arena->symbol_count(); ++i) {
    if (impl_->unbacked[settled.kept[i]]) continue;
    const Int symbol(settled.arena->symbol_expr(i));
    const Range range = settled.arena->range(i);
    if (range.low != INT64_MIN)
      settled.conditions.push_back({Relation::kNotLess, symbol, range.low});
    if (range.high != INT64_MAX)
      settled.conditions.push_back({Relation::kNotLess, range.high, symbol});
  }
  settled.range_count = static_cast<ptrdiff_t>(settled.conditions.size());
  settled.conditions.insert(settled.conditions.end(), others.begin(), others.end());
  return settled;
}

}  // namespace braze::sym
