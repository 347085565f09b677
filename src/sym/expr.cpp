#include "sym/expr.h"

#include <algorithm>

namespace braze::sym {

Int replace(Int a, std::span<const Int> values) {
  if (a.is_constant()) return a;
  const Expr& e = *a.expr();
  switch (e.kind) {
    case ExprKind::kSymbol:
      BRAZE_CHECK(e.symbol < static_cast<int>(values.size()), "no value for a symbol");
      return values[e.symbol];
    case ExprKind::kSum: {
      Int sum = e.constant;
      for (auto& [term, coefficient] : e.terms)
        sum = sum + Int(coefficient) * replace(Int(term), values);
      return sum;
    }
    case ExprKind::kProduct: {
      Int product = 1;
      for (auto& [factor, one] : e.terms) product = product * replace(Int(factor), values);
      return product;
    }
    case ExprKind::kFloorDiv:
      return floordiv(replace(e.a, values), replace(e.b, values));
    case ExprKind::kMod:
      return mod(replace(e.a, values), replace(e.b, values));
    case ExprKind::kMin:
      return min(replace(e.a, values), replace(e.b, values));
    case ExprKind::kMax:
      return max(replace(e.a, values), replace(e.b, values));
  }
  BRAZE_UNREACHABLE("expression kind");
}

Int Replacement::operator()(Int a) {
  if (a.is_constant()) return a;
  const size_t id = a.expr()->id;
  if (known_.size() <= id) known_.resize(std::max(id + 1, 2 * known_.size()));
  if (!known_[id].done) known_[id] = {true, replace(a, values_)};
  return known_[id].value;
}

int64_t evaluate(Int a, std::span<const int64_t> values) {
  if (a.is_constant()) return a.constant();
  const Expr& e = *a.expr();
  auto operand = [&](Int value) { return evaluate(value, values); };
  switch (e.kind) {
    case ExprKind::kSymbol:
      BRAZE_CHECK(e.symbol < static_cast<int>(values.size()), "no value for a symbol");
      return values[e.symbol];
    case ExprKind::kSum: {
      int64_t sum = e.constant;
      for (auto& [term, coefficient] : e.terms) sum += coefficient * operand(Int(term));
      return sum;
    }
    case ExprKind::kProduct: {
      int64_t product = 1;
      for (auto& [factor, one] : e.terms) product *= operand(Int(factor));
      return product;
    }
    case ExprKind::kFloorDiv:
      return floordiv(operand(e.a), operand(e.b));
    case ExprKind::kMod:
      return mod(operand(e.a), operand(e.b));
    case ExprKind::kMin:
      return std::min(operand(e.a), operand(e.b));
    case ExprKind::kMax:
      return std::max(operand(e.a), operand(e.b));
  }
  BRAZE_UNREACHABLE("expression kind");
}

namespace {

// Whether the text must stand in brackets as an operand of *, // and %.
bool needs_brackets(Int a) {
  if (a.is_constant()) return a.constant() < 0;
  return a.expr()->kind != ExprKind::kSymbol && a.expr()->kind != ExprKind::kMin &&
         a.expr()->kind != ExprKind::kMax;
}

std::string operand_text(Int a) {
  return needs_brackets(a) ? "(" + to_string(a) + ")" : to_string(a);
}

std::string sum_text(const Expr& e) {
  std::string text;
  auto append = [&](int64_t coefficient, const std::string& term) {
    const bool negative = coefficient < 0;
    if (text.empty())
      text = negative ? "-" : "";
    else
      text += negative ? " - " : " + ";
    const std::string magnitude =
        negative ? std::to_string(coefficient).substr(1) : std::to_string(coefficient);
    if (term.empty())
      text += magnitude;
    else
      text += magnitude == "1" ? term : magnitude + "*" + term;
  };
  for (auto& [term, coefficient] : e.terms) {
    const bool product = term->kind == ExprKind::kProduct;
    append(coefficient,
           product || coefficient == 1 ? to_string(Int(term)) : operand_text(Int(term)));
  }
  if (e.constant != 0) append(e.constant, "");
  return text;
}

}  // namespace

std::string to_string(Int a) {
  if (a.is_constant()) return std::to_string(a.constant());
  const Expr& e = *a.expr();
  switch (e.kind) {
    case ExprKind::kSymbol:
      return e.arena->name(e.symbol);
    case ExprKind::kSum:
      return sum_text(e);
    case ExprKind::kProduct: {
      std::string text;
      for (auto& [factor, one] : e.terms)
        text += (text.empty() ? "" : "*") + operand_text(Int(factor));
      return text;
    }
    case ExprKind::kFloorDiv:
      return operand_text(e.a) + " // " + operand_text(e.b);
    case ExprKind::kMod:
      return operand_text(e.a) + " % " + operand_text(e.b);
    case ExprKind::kMin:
      return "min(" + to_string(e.a) + ", " + to_string(e.b) + ")";
    case ExprKind::kMax:
      return "max(" + to_string(e.a) + ", " + to_string(e.b) + ")";
  }
  BRAZE_UNREACHABLE("expression kind");
}

}  // namespace braze::sym
