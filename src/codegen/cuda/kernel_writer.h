// Writes one kernel: the points of its threads, reductions and stores.
#pragma once

#include "codegen/cuda/codegen.h"
#include "codegen/cuda/nest.h"

namespace braze::codegen::cuda {

KernelCode write_kernel(const Nest& nest, const std::string& name);

}  // namespace braze::codegen::cuda
