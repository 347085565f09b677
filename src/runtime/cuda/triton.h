// Triton to machine code. Triton's compiler is Python, which the run time is linked without, so who
// compiles is installed from outside (dispatch/triton_compiler.h). What it has made is kept in the
// disk cache, by source, flags and Triton's version, so that a warm start does not need it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "toolchain/disk_cache.h"

namespace braze::runtime::cuda {

struct TritonSource {
  std::string name;  // of the kernel
  std::string text;
  std::vector<std::string> flags;  // codegen/triton/codegen.h
};

struct TritonBinary {
  uint32_t shared_bytes = 0;  // of a block
  int more_pointers = 0;      // that the kernel takes behind its arguments
  std::string cubin;
};

class TritonCompiler {
 public:
  virtual ~TritonCompiler() = default;
  virtual const std::string& version() const = 0;
  // All of them, in order. InternalError with the compiler's words. `folder`: where sources are
  // kept for who looks for their lines; empty: nowhere.
  virtual std::vector<TritonBinary> compile(std::span<const TritonSource> sources,
                                            const std::string& folder) = 0;
};

// Null: there is none. One that is installed stays.
TritonCompiler* triton_compiler();
void install(std::unique_ptr<TritonCompiler> compiler);

// From the cache or the compiler, which is null where there is none: a UserError for what is not in
// the cache.
std::vector<TritonBinary> triton_binaries(std::span<const TritonSource> sources);
std::vector<TritonBinary> triton_binaries(std::span<const TritonSource> sources,
                                          TritonCompiler* compiler, toolchain::DiskCache& cache);

}  // namespace braze::runtime::cuda
