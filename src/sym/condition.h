// What a compiled function asks of the values of its symbols.
#pragma once

#include <span>
#include <string>

#include "sym/int.h"

namespace braze::sym {

enum class Relation : uint8_t { kEqual, kNotEqual, kLess, kNotLess };

struct Condition {
  Relation relation;
  Int a, b;
  friend bool operator==(const Condition&, const Condition&) = default;
};

// "s0 == 2*s1", a constant on the right: "s0 > 3", not "3 < s0".
std::string to_string(const Condition& condition);
// Whether it holds when symbol i has the value values[i].
bool holds(const Condition& condition, std::span<const int64_t> values);
// The same with symbol i replaced by values[i].
Condition replace(const Condition& condition, std::span<const Int> values);

}  // namespace braze::sym
