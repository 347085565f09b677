// Symbolic integer expressions, interned: structurally equal expressions are one object, owned by
// the arena of a ShapeEnv.
//
// Canonical form: sums are linear forms `constant + sum of coefficient * term` whose terms are
// neither sums nor constants; products hold at least two factors that are neither sums nor
// products; both are sorted by structure, so that the form does not depend on what was made first.
// Products are multiplied out. Everything else has two operands.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sym/int.h"

namespace braze::sym {

enum class ExprKind : uint8_t { kSymbol, kSum, kProduct, kFloorDiv, kMod, kMin, kMax };

class ExprArena;

struct Expr {
  ExprKind kind = ExprKind::kSymbol;
  ExprArena* arena = nullptr;
  uint32_t id = 0;       // order of creation
  int64_t hint = 0;      // value when traced
  int symbol = -1;       // kSymbol: its number
  int64_t constant = 0;  // kSum
  // kSum: terms with their coefficients. kProduct: factors, coefficient 1.
  std::vector<std::pair<const Expr*, int64_t>> terms;
  Int a, b;  // kFloorDiv, kMod, kMin, kMax
};

// Both ends included; the ends of int64 stand for "unbounded".
struct Range {
  int64_t low = INT64_MIN;
  int64_t high = INT64_MAX;
  bool is_point() const { return low == high; }
};

class ExprArena {
 public:
  ExprArena() = default;
  ExprArena(const ExprArena&) = delete;

  const Expr* symbol(std::string name, int64_t hint, Range range);
  // The symbol of that name, or null.
  const Expr* find(std::string_view name) const;
  // The interned expression equal to `expr`, whose `arena` and `id` are ignored.
  const Expr* intern(Expr expr);

  int symbol_count() const { return static_cast<int>(symbols_.size()); }
  const std::string& name(int symbol) const { return symbols_[symbol].name; }
  const Expr* symbol_expr(int symbol) const { return symbols_[symbol].expr; }
  Range& range(int symbol) { return symbols_[symbol].range; }
  Range range(int symbol) const { return symbols_[symbol].range; }
  // What the ranges of the symbols imply for the value of `a`.
  Range range_of(Int a) const;

 private:
  struct Symbol {
    std::string name;
    Range range;
    const Expr* expr;
  };
  std::vector<Symbol> symbols_;
  std::unordered_map<std::string, std::unique_ptr<Expr>> interned_;  // by structure
};

// The same expression with symbol i replaced by values[i], simplified under the ranges of now.
Int replace(Int a, std::span<const Int> values);

// The value of `a` when symbol i has the value values[i].
int64_t evaluate(Int a, std::span<const int64_t> values);

}  // namespace braze::sym
