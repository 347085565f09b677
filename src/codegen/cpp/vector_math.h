// Vector math of generated kernels as text: at most 2 ulp in f32, special values as in libm.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/cpp/codegen.h"

namespace braze::codegen::cpp {

struct MathFunction {
  std::string_view name;                // "exp"
  std::vector<std::string_view> needs;  // other functions of the table
  // Placeholders: $F the vector, $I and $U the integer vectors of the same width, $L its lanes, $N
  // the suffix of function names ("f32x16"); for functions that compute in double: $H half of the
  // f32 lanes, $D the same lanes as f64, $M the suffix of functions on those.
  std::string_view text;
};
// Functions of f32 vectors, and of f64 vectors where the name says "core"; null where there is none
// and libm is called for each lane. The text is for at least four lanes of f32.
const MathFunction* find_math(std::string_view name);

// The text of a function for which processors have an instruction: "fma", "round", "floor", "ceil",
// "trunc", "sqrt", "scale" (x * 2^n).
std::string primitive(std::string_view name, std::string_view element, int lanes, Isa isa);
bool is_primitive(std::string_view name);

}  // namespace braze::codegen::cpp
