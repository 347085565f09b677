// Loop IR to self-contained C++ without a single #include: explicit vectors through the compiler's
// vector extensions, own vector math, one translation unit for all kernels that are given at once.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "loop/ir.h"
#include "target/target.h"

namespace braze::codegen::cpp {

using target::Isa;

std::vector<std::string> compiler_flags(Isa isa);  // "-O2 -mavx512f ...", for the toolchain

struct KernelCode {
  std::string name;     // extern "C" symbol
  sym::Int extent = 1;  // parallel work items; begin..end of a call is a part of [0, extent)
  sym::Int grain = 1;   // items below which another thread does not pay
  std::vector<sym::Int> sizes;   // what `sizes` of a call holds
  std::vector<sym::Int> limits;  // values that must fit 32 bits, or the kernel must not be called
  size_t characters = 0;         // of its function: about what compiling it costs
};

struct GeneratedCode {
  std::string text;
  std::vector<KernelCode> kernels;  // one for each given kernel, in order
};

// Each kernel becomes
//   extern "C" int64_t <name>(void* const* args, const int64_t* sizes, int64_t begin, int64_t end);
// which returns 0, or non-zero when a kCheckIndex failed. Loads and stores may be unaligned. A
// kernel of symbolic sizes is right for all of them (within `limits`); how it walks its axes is
// chosen by the sizes seen when traced. Names carry the kernels' numbers, from `first` on.
GeneratedCode generate(std::span<const loop::Kernel> kernels, const target::Cpu& cpu,
                       size_t first = 0);

}  // namespace braze::codegen::cpp
