#include "sym/condition.h"

#include <string_view>

#include "sym/expr.h"

namespace braze::sym {
namespace {

std::string_view text_of(Relation relation) {
  switch (relation) {
    case Relation::kEqual:
      return " == ";
    case Relation::kNotEqual:
      return " != ";
    case Relation::kLess:
      return " < ";
    case Relation::kNotLess:
      return " >= ";
  }
  BRAZE_UNREACHABLE("relation");
}

// With a constant on the left, the sides change places.
std::string_view flipped_text_of(Relation relation) {
  if (relation == Relation::kLess) return " > ";
  if (relation == Relation::kNotLess) return " <= ";
  return text_of(relation);
}

}  // namespace

std::string to_string(const Condition& condition) {
  const bool flip = condition.a.is_constant();
  const Int left = flip ? condition.b : condition.a, right = flip ? condition.a : condition.b;
  const std::string_view relation =
      flip ? flipped_text_of(condition.relation) : text_of(condition.relation);
  return to_string(left) + std::string(relation) + to_string(right);
}

bool holds(const Condition& condition, std::span<const int64_t> values) {
  const int64_t a = evaluate(condition.a, values), b = evaluate(condition.b, values);
  switch (condition.relation) {
    case Relation::kEqual:
      return a == b;
    case Relation::kNotEqual:
      return a != b;
    case Relation::kLess:
      return a < b;
    case Relation::kNotLess:
      return a >= b;
  }
  BRAZE_UNREACHABLE("relation");
}

Condition replace(const Condition& condition, std::span<const Int> values) {
  return {condition.relation, replace(condition.a, values), replace(condition.b, values)};
}

}  // namespace braze::sym
