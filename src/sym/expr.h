// Symbolic integer expressions, interned: structurally equal expressions are one object, owned by
// the arena of a ShapeEnv.
//
// Canonical form: sums are linear forms `constant + sum of coefficient * term` whose terms are
// neither sums nor constants; products hold at least two factors that are neither sums nor
// products; both are sorted by structure, so that the form does not depend on what was made first.
// Products are multiplied out. Everything else has two operands.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
  friend bool operator==(const Range&, const Range&) = default;
};

// Operations whose results an arena remembers.
enum class Operation : uint8_t {
  kNone,
  kAdd,
  kMultiply,
  kFloorDiv,
  kMod,
  kMin,
  kMax,
  kDivideExactly,
  kAtLeastByShift,
};

// Of one thread at a time, `const` functions too: they remember what they have worked out. Any
// number of threads may evaluate and print expressions of an arena that no longer grows.
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
  int expression_count() const { return static_cast<int>(exprs_.size()); }
  const std::string& name(int symbol) const { return symbols_[symbol].name; }
  const Expr* symbol_expr(int symbol) const { return symbols_[symbol].expr; }
  Range range(int symbol) const { return symbols_[symbol].range; }
  void set_range(int symbol, Range range);
  // What the ranges of the symbols imply for the value of `a`.
  Range range_of(Int a) const;
  // Another number after each change of a range: until then conclusions from ranges hold.
  uint64_t version() const { return version_; }

  // The result of `compute()`, an Int or nothing, for these operands, from memory if it is there.
  template <class Compute>
  std::optional<Int> remember(Operation operation, Int a, Int b, const Compute& compute) {
    if (memory_.empty()) memory_.resize(kMemory);
    const size_t place = place_of(operation, a, b);
    if (const Memory& known = memory_[place];
        known.operation == operation && known.a == a && known.b == b && known.version == version_)
      return known.result;
    const std::optional<Int> result = compute();
    memory_[place] = {operation, version_, a, b, result};
    return result;
  }

 private:
  struct Symbol {
    std::string name;
    Range range;
    const Expr* expr;
  };
  struct Memory {
    Operation operation = Operation::kNone;
    uint64_t version = 0;
    Int a, b;
    std::optional<Int> result;
  };
  struct Place {
    uint64_t hash = 0;
    const Expr* expr = nullptr;
  };
  struct KnownRange {
    uint64_t version = 0;
    Range range;
  };
  static constexpr size_t kMemory = 1024;  // a later operation takes the place of an earlier one

  static size_t place_of(Operation operation, Int a, Int b);
  Place& find_place(uint64_t hash, const Expr& expr);
  void grow();
  Range compute_range(const Expr& e) const;

  std::vector<Symbol> symbols_;
  std::deque<Expr> exprs_;     // by id - 1
  std::vector<Place> places_;  // by hash of the structure; a power of two, at most half full
  uint64_t version_ = 1;
  std::vector<Memory> memory_;
  mutable std::vector<KnownRange> ranges_;  // by id
};

// The same expression with symbol i replaced by values[i], simplified under the ranges of now.
Int replace(Int a, std::span<const Int> values);

// The same for many expressions of one arena, of which each is replaced once. For as long as no
// range of the arena that it leads to changes.
class Replacement {
 public:
  explicit Replacement(std::span<const Int> values) : values_(values) {}
  Int operator()(Int a);

 private:
  struct Known {
    bool done = false;
    Int value;
  };
  std::span<const Int> values_;
  std::vector<Known> known_;  // by id
};

// The value of `a` when symbol i has the value values[i].
int64_t evaluate(Int a, std::span<const int64_t> values);

}  // namespace braze::sym
