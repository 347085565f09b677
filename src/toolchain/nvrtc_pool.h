// The processes that one wave of sources is compiled in. Private to this folder.
#pragma once

#include <memory>
#include <vector>

#include "base/fork_mutex.h"
#include "toolchain/nvrtc.h"
#include "toolchain/nvrtc_process.h"

namespace braze::toolchain {

class NvrtcPool {
 public:
  // For so many runs: takes processes that were started ahead, and starts those that lack. For one
  // run alone none is started.
  NvrtcPool(const NvrtcSetup& setup, size_t runs);
  NvrtcPool(const NvrtcPool&) = delete;
  // Ends all of them.
  ~NvrtcPool();

  // In a process that is free, else in this one; where a process dies, in this one. InternalError
  // where it takes longer than it may. Thread-safe.
  NvrtcResult compile(const CudaSource& source);

 private:
  std::unique_ptr<NvrtcProcess> take();

  const NvrtcSetup& setup_;
  ForkMutex mutex_;
  std::vector<std::unique_ptr<NvrtcProcess>> free_;
};

}  // namespace braze::toolchain
