// Writes one kernel: the points of its threads, reductions and stores.
#pragma once

#include "codegen/cuda/codegen.h"
#include "codegen/cuda/nest.h"

namespace braze::codegen::cuda {

KernelCode write_kernel(const Nest& nest, const std::string& name);

// What it does, line by line, with the block's number under that name. Fills in what the launch is.
std::vector<std::string> kernel_lines(const Nest& nest, KernelCode& code, const std::string& block);

// What the kernel takes; `sizes` come behind its parameters.
std::string parameters_of(const Nest& nest, const std::vector<sym::Int>& sizes);

// `function`: from its parameters on. What it does becomes part of its name, so that sources with
// kernels that differ may stand in one program, whatever graphs they are from.
KernelCode finished(const Nest& nest, KernelCode code, const std::string& function);

// As codegen.h has it of a kernel of rows and one of columns.
KernelCode write_beside(const loop::Kernel& rows, const loop::Kernel& columns,
                        const target::Cuda& cuda, const std::string& name);

// As codegen.h has it of several kernels; where extents differ, the nest's is a symbol.
KernelCode write_kernels(const Nest& nest, std::span<const int64_t> extents,
                         const std::vector<bool>& common, const std::string& name);

}  // namespace braze::codegen::cuda
