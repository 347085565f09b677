// Vector math of generated kernels as text: at most 2 ulp in f32, special values as in libm.
#pragma once

#include <string_view>
#include <vector>

namespace braze::codegen::cpp {

struct MathFunction {
  std::string_view name;                // "exp"
  std::vector<std::string_view> needs;  // other functions of the table
  // Placeholders: $F the float vector, $I the signed integer vector of the same width, $L its
  // lanes, $N the suffix of function names ("f32x16").
  std::string_view text;
};
// Functions of f32 vectors; null where there is none and libm is called for each lane.
const MathFunction* find_math(std::string_view name);

}  // namespace braze::codegen::cpp
