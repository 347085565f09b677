// Loop IR to CUDA C++ without a single #include, for NVRTC: a source for each kernel, so that they
// are kept apart in caches. Sources may stand behind each other in one program: kernels that differ
// differ in name.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "loop/ir.h"
#include "target/target.h"

namespace braze::codegen::cuda {

std::vector<std::string> compiler_flags(const target::Cuda& cuda);  // of NVRTC

struct KernelCode {
  std::string name;  // extern "C" symbol
  std::string text;  // of the source
  std::array<sym::Int, 3> blocks = {1, 1, 1};
  std::array<sym::Int, 3> threads = {1, 1, 1};  // of a block
  int cluster = 1;                              // blocks that a cluster has, which is in the text
  sym::Int shared_bytes = 0;                    // beside what the kernel declares itself
  std::vector<sym::Int> sizes;                  // what it takes behind its parameters
  std::vector<sym::Int> limits;  // values that must fit 32 bits, or the kernel must not be launched
  // By parameter: bytes of which its address is to be a multiple; 1 where any address is good.
  std::vector<int32_t> alignment;
};

// What of this kernel there is no code for yet; empty: nothing.
std::string why_unsupported(const loop::Kernel& kernel);

// Each kernel becomes
//   extern "C" __global__ void <name>(T0* p0, T1* p1, ..., long long s0, ...);
// (`T p` for a parameter by value), to be launched as plan/function.h says, unless there are no
// blocks. A kernel without inner axes has a thread for each outer point, or for several
// neighbouring ones. One with inner axes has a block, a warp or a part of a warp for each outer
// point, whose threads share the inner points. Reductions have a fixed order, which follows from
// the sizes seen when traced.
KernelCode generate(const loop::Kernel& kernel, const target::Cuda& cuda);
std::vector<KernelCode> generate(std::span<const loop::Kernel> kernels, const target::Cuda& cuda);

// Ways to spread the kernel over the device that differ in their text, of which the first is
// `generate`'s. Results of reductions may differ in the last places, as their order does.
std::vector<KernelCode> candidates(const loop::Kernel& kernel, const target::Cuda& cuda);

// Several kernels in one launch, each with blocks of its own: this one with each of these extents
// of its first outer axis, if any, which may differ where that is the only axis. It takes the
// parameters of the first that are not `common` to all, then those of the second, ..., and those
// that are behind them. The extents, and where the blocks of each begin, are part of the code.
KernelCode generate_several(const loop::Kernel& kernel, std::span<const int64_t> extents,
                            const std::vector<bool>& common, const target::Cuda& cuda);

// A kernel of rows and one of columns in parts, whose blocks take turns (schedule/beside.h), with
// the parameters of both; and whether their threads make blocks of one size. Columns that are not
// loaded in packs take longer than what they find in a cache saves.
KernelCode generate_beside(const loop::Kernel& rows, const loop::Kernel& columns,
                           const target::Cuda& cuda);
bool share_launch(const loop::Kernel& rows, const loop::Kernel& columns, const target::Cuda& cuda);

}  // namespace braze::codegen::cuda
