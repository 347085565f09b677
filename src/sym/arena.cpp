#include <algorithm>

#include "sym/linear.h"

namespace braze::sym {
namespace {

// One step of a multiplicative mix, as in wyhash's final rounds.
uint64_t mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a ^ 0x9E3779B97F4A7C15u) *
                       static_cast<unsigned __int128>(b ^ 0xD1B54A32D192ED03u);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t hash_of(Int value) {
  return value.is_constant() ? static_cast<uint64_t>(value.constant())
                             : ~static_cast<uint64_t>(value.expr()->id);
}

uint64_t hash_of(const Expr& expr) {
  uint64_t hash = mix(static_cast<uint64_t>(expr.kind) << 32 | static_cast<uint32_t>(expr.symbol),
                      static_cast<uint64_t>(expr.constant));
  for (const auto& [term, coefficient] : expr.terms)
    hash = mix(hash, mix(term->id, static_cast<uint64_t>(coefficient)));
  if (!expr.terms.empty()) return hash;
  return mix(hash, mix(hash_of(expr.a), hash_of(expr.b)));
}

// Parts are interned, so that equal ones are the same.
bool same_structure(const Expr& x, const Expr& y) {
  return x.kind == y.kind && x.symbol == y.symbol && x.constant == y.constant && x.a == y.a &&
         x.b == y.b && x.terms == y.terms;
}

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

Range intersect(Range a, Range b) { return {std::max(a.low, b.low), std::min(a.high, b.high)}; }

// s0*s1 - s0 is s0 * (s1 - 1): of a sum whose terms share a factor, by the two parts.
Range range_by_factor(const ExprArena& arena, const Expr& sum) {
  if (sum.constant != 0 || sum.terms.size() < 2) return {};
  Factors shared = factors(sum.terms[0].first);
  for (auto& [term, coefficient] : sum.terms) {
    const Factors own = factors(term);
    std::erase_if(shared, [&](const Expr* factor) {
      return std::find(own.begin(), own.end(), factor) == own.end();
    });
  }
  if (shared.empty()) return {};
  Linear rest;
  for (auto& [term, coefficient] : sum.terms) {
    Factors left = factors(term);
    left.erase(std::find(left.begin(), left.end(), shared[0]));
    if (left.empty())
      rest.constant += coefficient;
    else
      rest.add_term(product_of(*sum.arena, std::move(left)), coefficient);
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

void ExprArena::set_range(int symbol, Range range) {
  if (range == symbols_[symbol].range) return;
  symbols_[symbol].range = range;
  ++version_;
}

size_t ExprArena::place_of(Operation operation, Int a, Int b) {
  return mix(hash_of(a) + static_cast<uint64_t>(operation), hash_of(b)) % kMemory;
}

ExprArena::Place& ExprArena::find_place(uint64_t hash, const Expr& expr) {
  for (size_t i = hash;; ++i) {
    Place& place = places_[i & (places_.size() - 1)];
    if (!place.expr || (place.hash == hash && same_structure(*place.expr, expr))) return place;
  }
}

void ExprArena::grow() {
  std::vector<Place> old(places_.empty() ? 64 : places_.size() * 2);
  old.swap(places_);
  for (const Place& place : old)
    if (place.expr) find_place(place.hash, *place.expr) = place;
}

const Expr* ExprArena::intern(Expr expr) {
  if (2 * exprs_.size() >= places_.size()) grow();
  const uint64_t hash = hash_of(expr);
  Place& place = find_place(hash, expr);
  if (!place.expr) {
    expr.arena = this;
    expr.id = static_cast<uint32_t>(exprs_.size()) + 1;
    exprs_.push_back(std::move(expr));
    place = {hash, &exprs_.back()};
  }
  return place.expr;
}

Range ExprArena::range_of(Int a) const {
  if (a.is_constant()) return {a.constant(), a.constant()};
  const uint32_t id = a.expr()->id;
  if (id < ranges_.size() && ranges_[id].version == version_) return ranges_[id].range;
  const Range range = compute_range(*a.expr());
  if (ranges_.size() <= id) ranges_.resize(std::max<size_t>(id + 1, 2 * ranges_.size()));
  ranges_[id] = {version_, range};
  return range;
}

Range ExprArena::compute_range(const Expr& e) const {
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

}  // namespace braze::sym
