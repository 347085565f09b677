// The text of the helpers (helpers.h) that convert half floats: one to one, and a vector at a time.
// Kernels compute with halves in f32 and keep their bits in u16.
//
// All instruction sets give the same bits: conversions to a half round half to even, and NaN
// becomes the quiet NaN without a payload (f16 with the sign of the operand, bf16 without).
#pragma once

#include <string_view>

namespace braze::codegen::cpp {

std::string_view f32_of_bf16_text();
std::string_view bf16_of_f32_text();
std::string_view f16_moves_text();
std::string_view f32_of_f16_text();
std::string_view f16_of_f32_text();

}  // namespace braze::codegen::cpp
