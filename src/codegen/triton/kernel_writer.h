// Writes one kernel: the points of a program, reductions and stores.
#pragma once

#include "codegen/triton/codegen.h"
#include "codegen/triton/tile.h"

namespace braze::codegen::triton {

KernelCode write_kernel(const cuda::Nest& nest, const Tile& tile, const target::Cuda& cuda);

}  // namespace braze::codegen::triton
