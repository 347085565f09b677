#include "target/target.h"

#include "base/error.h"

namespace braze::target {
namespace {

// NVIDIA, CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
struct Capability {
  int sm;
  int resident_threads;
  int64_t shared_kib;
};
constexpr Capability kCapabilities[] = {
    {70, 2048, 96},  {72, 2048, 96}, {75, 1024, 64},  {80, 2048, 163},  {86, 1536, 99},
    {87, 1536, 163}, {89, 1536, 99}, {90, 2048, 227}, {100, 2048, 227}, {120, 1536, 99}};

std::string text(const Cpu& cpu) {
  return "cpu " + std::string(to_string(cpu.isa)) + " threads " + std::to_string(cpu.threads);
}

std::string text(const Cuda& cuda) {
  return "cuda sm_" + std::to_string(cuda.sm) + " processors " + std::to_string(cuda.processors) +
         " resident_threads " + std::to_string(cuda.resident_threads) + " shared_bytes " +
         std::to_string(cuda.shared_bytes) + " bandwidth " + std::to_string(cuda.bandwidth);
}

}  // namespace

Cuda cuda(int sm, int processors, int64_t bandwidth) {
  for (const Capability& known : kCapabilities) {
    if (known.sm != sm) continue;
    return {.sm = sm,
            .processors = processors,
            .resident_threads = known.resident_threads,
            .shared_bytes = known.shared_kib * 1024,
            .bandwidth = bandwidth};
  }
  throw UserError("no kernels can be made for a CUDA device of compute capability " +
                  std::to_string(sm / 10) + "." + std::to_string(sm % 10) +
                  ": choose another device, or the CPU");
}

std::string to_string(const Target& target) {
  return std::visit([](const auto& kind) { return text(kind); }, target);
}

}  // namespace braze::target
