// Loop IR to self-contained C++ without a single #include: explicit vectors through the compiler's
// vector extensions, own vector math, one translation unit for all kernels of a graph.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "loop/ir.h"

namespace braze::codegen::cpp {

enum class Isa : uint8_t { kGeneric, kAvx2, kAvx512 };
std::string_view to_string(Isa isa);
Isa host_isa();                                    // by cpuid
std::vector<std::string> compiler_flags(Isa isa);  // "-O2 -mavx512f ...", for the toolchain

struct KernelCode {
  std::string name;    // extern "C" symbol
  int64_t extent = 1;  // parallel work items; begin..end of a call is a part of [0, extent)
  int64_t grain = 1;   // items below which another thread does not pay
};

struct Source {
  std::string text;
  std::vector<KernelCode> kernels;  // one for each given kernel, in order
};

// Each kernel becomes
//   extern "C" int64_t <name>(void* const* args, const int64_t* sizes, int64_t begin, int64_t end);
// which returns 0, or non-zero when a kCheckIndex failed. Loads and stores may be unaligned.
Source generate(std::span<const loop::Kernel> kernels, Isa isa);

}  // namespace braze::codegen::cpp
