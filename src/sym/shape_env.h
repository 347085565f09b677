// Symbols for sizes, what is known about them, and the guards that decisions on them need.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sym/int.h"

namespace braze::sym {

class ShapeEnv {
 public:
  ShapeEnv();
  ~ShapeEnv();
  ShapeEnv(const ShapeEnv&) = delete;

  // A size with the value it had when traced. `specialise` binds it to that value at once, through
  // an equality guard: what comes back is the constant. Sizes 0 and 1 are always specialised
  // (they change how tensors broadcast); other symbols are guarded to be at least 2.
  Int symbol(const std::string& name, int64_t hint, bool specialise);

  // The truth of `a op b` for all values that the guards so far allow, or, where that is not
  // decided, for the hints, recording a guard.
  bool guard_eq(Int a, Int b);
  bool guard_lt(Int a, Int b);
  int64_t guard_int(Int a);  // specialises to the hint

  struct Guard {
    std::string text;  // "s0 == 128"
  };
  const std::vector<Guard>& guards() const;
  // Whether all guards hold for these values of the symbols (in order of creation).
  bool holds(std::span<const int64_t> values) const;
  int symbol_count() const;

 private:
  friend struct Builder;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace braze::sym
