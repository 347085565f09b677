// Sums and products taken apart; shared by the sources of this folder.
#pragma once

#include <utility>
#include <vector>

#include "sym/expr.h"

namespace braze::sym {

// A total order by structure: constants first, then symbols in their order.
int compare(Int a, Int b);
int compare(const Expr* a, const Expr* b);

// The value as a linear form: terms in their order, and a constant. Coefficients may be 0.
struct Linear {
  int64_t constant = 0;
  std::vector<std::pair<const Expr*, int64_t>> terms;

  void add_term(const Expr* term, int64_t coefficient);
  void add(Int value, int64_t scale);
};

Linear linear(Int value);
Int from_linear(ExprArena& arena, const Linear& form);

using Factors = std::vector<const Expr*>;

// Of a term: those of a product, else itself.
Factors factors(const Expr* term);
const Expr* product_of(ExprArena& arena, Factors all);

}  // namespace braze::sym
