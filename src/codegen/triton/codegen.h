// Loop IR to Triton, Python source that a person can read: a module for each kernel, with those
// functions in front of it that it calls. How points are spread over programs follows the nest that
// CUDA C++ has for the same kernel (codegen/cuda/nest.h), block for block.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "loop/ir.h"
#include "target/target.h"

namespace braze::codegen::triton {

struct KernelCode {
  std::string name;  // of the function
  std::string text;  // of the module
  std::array<sym::Int, 3> blocks = {1, 1, 1};
  std::array<sym::Int, 3> threads = {1, 1, 1};  // 32 for each of Triton's warps
  std::vector<sym::Int> sizes;                  // what it takes behind its parameters
  std::vector<sym::Int> limits;                 // must fit 32 bits, or it must not be launched
  std::vector<int32_t> alignment;               // by parameter, as of cuda::KernelCode
  // What Triton's compiler is told, as "name=value": "sm", "warps", "signature" (Triton's name of
  // the type of each argument, those divisible by N with ":N" behind it, commas between), and
  // "asserts=1" where the kernel checks indices.
  std::vector<std::string> flags;
};

// Why the kernel is better off as CUDA C++; empty: it is not. It has code there.
std::string why_unsupported(const loop::Kernel& kernel, const target::Cuda& cuda);

// The kernel becomes a function of its parameters and of its sizes, 64 bits each, that is launched
// as a kernel of CUDA C++ is. A program has the points of a block of threads: a part of the points
// of a kernel without inner axes, one or several rows, or a strip of columns. Reductions have a
// fixed order, which follows from the sizes seen when traced.
KernelCode generate(const loop::Kernel& kernel, const target::Cuda& cuda);

}  // namespace braze::codegen::triton
