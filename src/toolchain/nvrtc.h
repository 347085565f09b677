// CUDA C++ to machine code: NVRTC, found when it is first asked for and opened by dlopen, and the
// disk cache that keeps what it made.
//
// A run of NVRTC takes 20 to 30 ms before it looks at the first kernel, and the threads of a
// process wait for each other in it. So sources are put together, a run for as many as there are
// processors, each run in a process of its own (nvrtc_process.h). Where there is no such process,
// or it dies, the sources are compiled in this one; that is told once.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "toolchain/disk_cache.h"
#include "toolchain/nvrtc_library.h"

namespace braze::toolchain {

// Why there is no NVRTC; empty: there is one. It is BRAZE_NVRTC's, else that of the packages that
// PyTorch's wheels need, else what the loader finds.
const std::string& why_no_nvrtc();
std::string nvrtc_version();  // "13.0"; UserError where there is none

// Machine code (cubins), each with the kernels of one source or of several.
struct Cubins {
  std::vector<std::string> code;
  std::vector<size_t> of_source;  // the number of the code that has the source's kernels
};

// Compiled side by side where it is not in the cache. Sources may stand behind each other in one
// program: what they share they define once (`#ifndef`), and no two that differ have kernels of one
// name. InternalError with NVRTC's messages; UserError, with the way out, where there is no NVRTC.
Cubins cubins(std::span<const CudaSource> sources);

// As the other, but with another library and another program for the processes.
struct NvrtcSetup {
  const NvrtcLibrary& library;
  std::string program;                 // empty: there is none, all is compiled in this process
  size_t most_processes = 0;           // 0, or 1: all is compiled in this process
  std::chrono::milliseconds limit{0};  // of one run
};
Cubins cubins(std::span<const CudaSource> sources, DiskCache& cache);
Cubins cubins(std::span<const CudaSource> sources, DiskCache& cache, const NvrtcSetup& setup);

// Processes that are started ahead, so that they are ready when `cubins` has something for them.
// Those that it had no use for end with this.
class NvrtcAhead {
 public:
  // For about so many sources.
  explicit NvrtcAhead(size_t sources);
  NvrtcAhead(const NvrtcAhead&) = delete;
  ~NvrtcAhead();
};

}  // namespace braze::toolchain
