// Writes one kernel: its loops, reductions and stores.
#pragma once

#include <string>

#include "codegen/cpp/nest.h"
#include "codegen/cpp/prelude.h"

namespace braze::codegen::cpp {

// The function's text. `symbol` is its extern "C" name.
std::string write_kernel(const Nest& nest, const std::string& symbol, Prelude& prelude);

}  // namespace braze::codegen::cpp
