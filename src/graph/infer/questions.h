// Questions about sizes that may be symbolic, as the rules of this folder ask them. Who works out
// metadata answers: a pass by what the graph was traced with, which holds for every call of it; a
// trace by guards, or by breaking off where a size is not known yet.
#pragma once

#include <span>

#include "sym/int.h"

namespace braze::graph {

class SizeQuestions {
 public:
  // Decide what a result looks like.
  bool equal(sym::Int a, sym::Int b) {
    return a == b || (!sym::detail::constants(a, b) && are_equal(a, b));
  }
  bool less(sym::Int a, sym::Int b) {
    if (sym::detail::constants(a, b)) return a.constant() < b.constant();
    return a != b && is_less(a, b);
  }
  bool all_equal(std::span<const sym::Int> a, std::span<const sym::Int> b);

  // What eager demands of a call: where it does not hold, eager raises an error.
  bool fit(sym::Int a, sym::Int b) {
    return a == b || (!sym::detail::constants(a, b) && must_be_equal(a, b));
  }
  bool all_fit(std::span<const sym::Int> a, std::span<const sym::Int> b);
  bool at_most(sym::Int a, sym::Int b) {
    return sym::detail::constants(a, b) ? a.constant() <= b.constant() : must_be_at_most(a, b);
  }
  // The same, for numbers that come from data too, of which it becomes an assertion.
  bool expect_equal(sym::Int a, sym::Int b) {
    return a == b || (!sym::detail::constants(a, b) && asserts_equal(a, b));
  }
  bool expect_at_least(sym::Int a, int64_t least) {
    return a.is_constant() ? a.constant() >= least : asserts_at_least(a, least);
  }

  // Of a layout, which decides nothing but how a result lies. Where a size is not known: no.
  bool surely_equal(sym::Int a, sym::Int b) {
    return a == b || (!sym::detail::constants(a, b) && is_surely_equal(a, b));
  }
  // As it is for all sizes of 2 and more: a dimension of size 0 or 1 may stand anywhere.
  bool less_for_most_sizes(sym::Int a, sym::Int b) {
    if (sym::detail::constants(a, b)) return a.constant() < b.constant();
    return a != b && is_less_for_most_sizes(a, b);
  }

  // The value, which is then fixed.
  int64_t number(sym::Int a) { return a.is_constant() ? a.constant() : fixed(a); }
  // Whether the size may turn out to be 0 without a question that could tell now.
  bool may_be_empty(sym::Int size) {
    return size.is_constant() ? size.constant() == 0 : comes_from_data(size);
  }
  // What a dimension adds to the strides outside of it: its size, 1 if it is empty.
  sym::Int spanned(sym::Int size) {
    if (size.is_constant()) return size.constant() == 0 ? 1 : size.constant();
    return span_of(size);
  }

 protected:
  ~SizeQuestions() = default;
  virtual bool are_equal(sym::Int a, sym::Int b) = 0;
  virtual bool is_less(sym::Int a, sym::Int b) = 0;
  virtual bool must_be_equal(sym::Int a, sym::Int b) = 0;
  virtual bool must_be_at_most(sym::Int a, sym::Int b) = 0;
  virtual bool asserts_equal(sym::Int a, sym::Int b) = 0;
  virtual bool asserts_at_least(sym::Int a, int64_t least) = 0;
  virtual bool is_surely_equal(sym::Int a, sym::Int b) = 0;
  virtual bool is_less_for_most_sizes(sym::Int a, sym::Int b) = 0;
  virtual int64_t fixed(sym::Int a) = 0;
  virtual bool comes_from_data(sym::Int a) = 0;
  virtual sym::Int span_of(sym::Int size) = 0;
};

// The answers of passes: two expressions are equal if they are the same, one is less than another
// if it was when traced, and what was traced fits.
SizeQuestions& traced_sizes();

}  // namespace braze::graph
