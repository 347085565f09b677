// What a CUDA graph cannot hold.
#pragma once

#include <string>

#include "runtime/prepared_function.h"

namespace braze::runtime {

// Why the function cannot be recorded and launched as a whole, with the line of the program that is
// in the way: "aten.nonzero reads data of the GPU on the CPU (model.py:12)". Empty: it can.
std::string why_not_recordable(const PreparedFunction& prepared);

}  // namespace braze::runtime
