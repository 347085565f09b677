// The machine code of a module's kernels.
#pragma once

#include <memory>
#include <vector>

#include "plan/module.h"
#include "runtime/cuda/driver.h"
#include "toolchain/toolchain.h"

namespace braze::runtime {

struct LoadedKernel {
  void* function = nullptr;
  // What Triton's compiler has made of it, beside what the plan says: shared memory of a block, and
  // pointers behind the arguments, which are null as the kernel has nothing to keep there.
  uint32_t shared_bytes = 0;
  int more_pointers = 0;
};

struct LoadedKernels {
  std::vector<std::vector<LoadedKernel>> functions;  // by function of the module and kernel of it
  // Own them, by code object; null where it is in another language. Several may share one.
  std::vector<std::shared_ptr<toolchain::Library>> libraries;
  std::vector<std::shared_ptr<cuda::LoadedCode>> on_device;
};

// Builds or loads the code of a module. InternalError with the compiler's or the driver's words;
// UserError where there is no compiler or driver.
LoadedKernels load_kernels(const plan::Module& module);

}  // namespace braze::runtime
