#include <algorithm>
#include <cctype>

#include "codegen/cuda/codegen.h"
#include "codegen/cuda/kernel_writer.h"

namespace braze::codegen::cuda {
namespace {

// Names are descriptive, and may hold anything.
std::string symbol_of(const std::string& name) {
  std::string symbol = "k_";
  for (char c : name) symbol += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return symbol;
}

}  // namespace

std::string why_unsupported(const loop::Kernel& kernel) {
  for (const loop::Statement& statement : kernel.body) {
    if (statement.is_scan()) return "it keeps a running value along an axis";
    if (statement.accumulates()) return "several points store to one element";
  }
  return "";
}

std::vector<std::string> compiler_flags(const target::Cuda& cuda) {
  // Nothing is contracted, as eager rounds after each op. Where eager's own kernels contract within
  // an op, results differ in the last place.
  return {"--gpu-architecture=sm_" + std::to_string(cuda.sm), "--std=c++17", "--fmad=false",
          "--device-as-default-execution-space"};
}

std::vector<KernelCode> generate(std::span<const loop::Kernel> kernels, const target::Cuda& cuda) {
  std::vector<KernelCode> code;
  for (const loop::Kernel& kernel : kernels) {
    const Nest nest = plan_nest(kernel, cuda);
    code.push_back(write_kernel(nest, symbol_of(kernel.name)));
  }
  return code;
}

}  // namespace braze::codegen::cuda
