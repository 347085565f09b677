// CUDA C++ to machine code: NVRTC, found when it is first asked for and opened by dlopen, and the
// disk cache that keeps what it made.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "toolchain/disk_cache.h"

namespace braze::toolchain {

struct CudaSource {
  std::string text;
  std::vector<std::string> flags;  // with the device's architecture: --gpu-architecture=sm_90
};

// Why there is no NVRTC; empty: there is one. It is BRAZE_NVRTC's, else that of the packages that
// PyTorch's wheels need, else what the loader finds.
const std::string& why_no_nvrtc();
std::string nvrtc_version();  // "13.0"; UserError where there is none

// The machine code (cubin) of each source, compiled side by side where it is not in the cache.
// InternalError with NVRTC's messages; UserError, with the way out, where there is no NVRTC.
std::vector<std::string> cubins(std::span<const CudaSource> sources);
std::vector<std::string> cubins(std::span<const CudaSource> sources, DiskCache& cache);

}  // namespace braze::toolchain
