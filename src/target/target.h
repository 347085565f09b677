// What kernels are made for: the one description of a machine that lowering, scheduling, memory
// planning and code generation are given. What pays on it follows from it (costs.h).
#pragma once

#include <string>
#include <variant>

#include "target/isa.h"

namespace braze::target {

struct Cpu {
  Isa isa = Isa::kGeneric;
  int threads = 1;  // that share a kernel
  friend bool operator==(const Cpu&, const Cpu&) = default;
};

// A GPU of NVIDIA.
struct Cuda {
  int sm = 0;                // compute capability times ten: 90
  int processors = 0;        // streaming multiprocessors
  int resident_threads = 0;  // of a processor at one time
  int64_t shared_bytes = 0;  // most shared memory of a block
  int64_t bandwidth = 0;     // of the device's memory, in bytes per microsecond
  friend bool operator==(const Cuda&, const Cuda&) = default;
};

// The device with this compute capability (7.0 and above), which gives `resident_threads` and
// `shared_bytes`. UserError for one that is not known.
Cuda cuda(int sm, int processors, int64_t bandwidth);

using Target = std::variant<Cpu, Cuda>;

// "cpu avx512 threads 4", "cuda sm_90 processors 132 resident_threads 2048 ...". Equal for equal
// targets only.
std::string to_string(const Target& target);

}  // namespace braze::target
