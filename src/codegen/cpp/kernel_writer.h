// Writes the functions of one kernel: its own and those of its short versions.
#pragma once

#include <string>

#include "codegen/cpp/nest.h"
#include "codegen/cpp/prelude.h"

namespace braze::codegen::cpp {

struct KernelText {
  std::string text;             // of the functions
  std::vector<sym::Int> sizes;  // what it takes as `sizes`
};

// `symbol` is the function's extern "C" name.
KernelText write_kernel(const Nest& nest, const std::string& symbol, Prelude& prelude);

}  // namespace braze::codegen::cpp
