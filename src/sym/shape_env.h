// Symbols for sizes, what is known about them, and the guards that decisions on them need.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sym/condition.h"
#include "sym/expr.h"
#include "sym/int.h"

namespace braze::sym {

// A question about an unbacked symbol that nothing known answers: its value is not there yet.
class Undecidable : public std::exception {
 public:
  explicit Undecidable(std::string question) : question_(std::move(question)) {}
  const char* what() const noexcept override { return question_.c_str(); }  // "u0 < 4"

 private:
  std::string question_;
};

class ShapeEnv : public std::enable_shared_from_this<ShapeEnv> {
 public:
  ShapeEnv();
  ~ShapeEnv();
  ShapeEnv(const ShapeEnv&) = delete;

  // A size with the value it had when traced. `specialise` binds it to that value at once, through
  // an equality guard: what comes back is the constant. Sizes 0 and 1 are always specialised
  // (they change how tensors broadcast); other symbols are guarded to be at least 2.
  Int symbol(const std::string& name, int64_t hint, bool specialise);
  // An integer within a range, which becomes a guard. A hint outside of it is an internal error.
  Int symbol(const std::string& name, int64_t hint, Range range);

  // An integer that the compiled code works out itself (an item of a tensor, the size of what
  // nonzero gives): no guard can ask for its value. Its hint is good for nothing but choosing among
  // ways that are all right.
  // `value`: where the call does bring one, that of this call; it decides nothing but whether what
  // is expected of it holds.
  Int unbacked(const std::string& name, int64_t hint, Range range,
               std::optional<int64_t> value = std::nullopt);
  bool is_unbacked(int symbol) const;
  bool mentions_unbacked(Int a) const;

  // Makes sure that `a op b`: true where it is known or becomes a guard that holds now, false where
  // it is not so. With unbacked symbols it becomes an assertion, which the compiled code checks,
  // and is known from then on.
  bool expect(Relation relation, Int a, Int b);
  // Whether the sum or difference (the product) of what may be any integers is one of 64 bits, as
  // that of Python's is always: makes sure of it by bounds on both, by guards or assertions. Sizes
  // are taken to be bounded by the memory there is, and so are products of two sizes, and of
  // several different ones.
  bool may_add(Int a, Int b);
  bool may_multiply(Int a, Int b);
  // Nothing if it depends on an unbacked symbol whose value matters.
  std::optional<bool> known(Relation relation, Int a, Int b);
  const std::vector<Condition>& assertions() const;

  // The truth of `a op b` for all values that the guards so far allow, or, where that is not
  // decided, for the hints, recording a guard. An equality that determines a symbol is used from
  // then on: see `normal`. Undecidable is thrown where the hint of an unbacked symbol would decide.
  bool guard_eq(Int a, Int b);
  bool guard_lt(Int a, Int b);
  int64_t guard_int(Int a);  // specialises to the hint

  // `a` with everything put in that equalities have shown: a constant if its value is known.
  Int normal(Int a) const;
  // What the guards so far imply for the value of `a`.
  Range range_of(Int a) const;

  struct Guard {
    std::string text;   // "s0 == 128"
    std::string place;  // what the observer said when it was recorded
  };
  const std::vector<Guard>& guards() const;
  // Whether all guards hold for these values of the symbols (in order of creation).
  bool holds(std::span<const int64_t> values) const;
  int symbol_count() const;

  // Asked for each new guard where in the program it comes from.
  void set_observer(std::function<std::string()> observer);
  // The guard that made `a` a constant; null if none did.
  const Guard* why_constant(Int a) const;

  // What is left when the trace is over: symbols that are not determined by others, in an arena of
  // their own, and the conditions on them that are not true anyway.
  struct Settled {
    std::shared_ptr<ExprArena> arena;
    std::vector<int> kept;    // by new symbol: the old one
    std::vector<Int> values;  // by old symbol: what it is, in the new arena; for sym::replace
    std::vector<Condition> conditions;
    ptrdiff_t range_count = 0;          // the first of them say the ranges of the arena again
    std::vector<Condition> assertions;  // on unbacked symbols
  };
  Settled settle() const;

 private:
  // |a| <= limit. `sizes_too`: sizes may be larger as well.
  bool keep_within(Int a, int64_t limit, bool sizes_too = false);
  friend struct Builder;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace braze::sym
