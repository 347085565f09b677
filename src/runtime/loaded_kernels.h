// The machine code of a module's kernels.
#pragma once

#include <memory>
#include <vector>

#include "plan/module.h"
#include "runtime/cuda/driver.h"
#include "toolchain/toolchain.h"

namespace braze::runtime {

struct LoadedKernels {
  std::vector<std::vector<void*>> functions;  // by function of the module and kernel of it
  // Own them, by code object; null where it is in another language. Several may share one.
  std::vector<std::shared_ptr<toolchain::Library>> libraries;
  std::vector<std::shared_ptr<cuda::LoadedCode>> on_device;
};

// Builds or loads the code of a module. InternalError with the compiler's or the driver's words;
// UserError where there is no compiler or driver.
LoadedKernels load_kernels(const plan::Module& module);

}  // namespace braze::runtime
