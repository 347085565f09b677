#include "codegen/cpp/vector_math.h"

namespace braze::codegen::cpp {

const MathFunction* find_math(std::string_view) { return nullptr; }

}  // namespace braze::codegen::cpp
