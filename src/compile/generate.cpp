#include "compile/generate.h"

#include "codegen/cpp/codegen.h"
#include "codegen/cuda/codegen.h"
#include "graph/devices.h"

namespace braze::compile {
namespace {

std::vector<KernelCode> generate(std::span<const loop::Kernel> kernels, const target::Cpu& cpu,
                                 plan::Module& module) {
  codegen::cpp::GeneratedCode generated = codegen::cpp::generate(kernels, cpu);
  module.code.push_back({.language = plan::Language::kCpp,
                         .text = std::move(generated.text),
                         .flags = codegen::cpp::compiler_flags(cpu.isa)});
  std::vector<KernelCode> code;
  for (codegen::cpp::KernelCode& kernel : generated.kernels)
    code.push_back({.name = std::move(kernel.name),
                    .launch = plan::Chunks{.extent = kernel.extent, .grain = kernel.grain},
                    .sizes = std::move(kernel.sizes),
                    .limits = std::move(kernel.limits)});
  return code;
}

std::vector<KernelCode> generate(std::span<const loop::Kernel> kernels, const target::Cuda& cuda,
                                 plan::Module& module) {
  std::vector<KernelCode> code;
  for (codegen::cuda::KernelCode& kernel : codegen::cuda::generate(kernels, cuda)) {
    code.push_back({.name = std::move(kernel.name),
                    .code = static_cast<int32_t>(module.code.size()),
                    .launch = plan::Grid{.blocks = kernel.blocks,
                                         .threads = kernel.threads,
                                         .shared_bytes = kernel.shared_bytes},
                    .sizes = std::move(kernel.sizes),
                    .limits = std::move(kernel.limits)});
    module.code.push_back({.language = plan::Language::kCuda,
                           .text = std::move(kernel.text),
                           .flags = codegen::cuda::compiler_flags(cuda)});
  }
  return code;
}

}  // namespace

std::string why_no_code(std::span<const loop::Kernel> kernels, const target::Target& target) {
  if (!std::holds_alternative<target::Cuda>(target)) return "";
  for (const loop::Kernel& kernel : kernels)
    if (const std::string why = codegen::cuda::why_unsupported(kernel); !why.empty())
      return "no code for " + kernel.name + " on a GPU: " + why;
  return "";
}

std::vector<KernelCode> generate_code(std::span<const loop::Kernel> kernels,
                                      const target::Target& target, plan::Module& module) {
  if (kernels.empty()) return {};
  return std::visit([&](const auto& kind) { return generate(kernels, kind, module); }, target);
}

graph::Device kernel_device(const graph::Graph& graph, const target::Target& target) {
  if (std::holds_alternative<target::Cpu>(target)) return {};
  const std::vector<graph::Device> devices = graph::accelerators(graph);
  return devices.empty() ? graph::Device{} : devices[0];
}

}  // namespace braze::compile
