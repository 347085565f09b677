// Functions that kernels in Triton call: the source of a kernel has those that it needs.
#pragma once

#include <string>

#include "codegen/triton/operators.h"

namespace braze::codegen::triton {

// The imports and these functions, with those that they call. InternalError for a name that is
// none.
std::string source_of_helpers(const Helpers& helpers);

}  // namespace braze::codegen::triton
