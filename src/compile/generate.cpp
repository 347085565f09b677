#include "compile/generate.h"

#include <algorithm>

#include "codegen/cpp/codegen.h"
#include "codegen/cuda/codegen.h"
#include "graph/devices.h"

namespace braze::compile {
namespace {

// Kernels of one source.
struct Part {
  size_t begin, end;
};

// Neighbouring kernels, about as many characters in each part. 12 KiB take the compiler 130 ms;
// another start, and the types and functions that all share, cost it 35.
std::vector<Part> parts_of(std::span<const codegen::cpp::KernelCode> kernels, int threads) {
  constexpr size_t kCharacters = 12 << 10, kMost = 8;
  size_t all = 0;
  for (const codegen::cpp::KernelCode& kernel : kernels) all += kernel.characters;
  const size_t most = threads > 1 ? std::min<size_t>(2 * threads, kMost) : 1;
  const size_t count = std::clamp<size_t>((all + kCharacters / 2) / kCharacters, 1, most);
  std::vector<Part> parts = {{0, 0}};
  size_t before = 0;
  for (const codegen::cpp::KernelCode& kernel : kernels) {
    const size_t middle = before + kernel.characters / 2;
    if (middle * count >= all * parts.size() && parts.back().end > parts.back().begin)
      parts.push_back({parts.back().end, parts.back().end});
    ++parts.back().end;
    before += kernel.characters;
  }
  return parts;
}

void add_code(codegen::cpp::GeneratedCode generated, const target::Cpu& cpu, plan::Module& module,
              std::vector<KernelCode>& code) {
  for (codegen::cpp::KernelCode& kernel : generated.kernels)
    code.push_back({.name = std::move(kernel.name),
                    .code = static_cast<int32_t>(module.code.size()),
                    .launch = plan::Chunks{.extent = kernel.extent, .grain = kernel.grain},
                    .sizes = std::move(kernel.sizes),
                    .limits = std::move(kernel.limits)});
  module.code.push_back({.language = plan::Language::kCpp,
                         .text = std::move(generated.text),
                         .flags = codegen::cpp::compiler_flags(cpu.isa)});
}

std::vector<KernelCode> generate(std::span<const LaunchedKernel> launched, const target::Cpu& cpu,
                                 plan::Module& module) {
  std::vector<loop::Kernel> all;
  for (const LaunchedKernel& one : launched) all.push_back(one.kernel);
  const std::span<const loop::Kernel> kernels = all;
  std::vector<KernelCode> code;
  codegen::cpp::GeneratedCode whole = codegen::cpp::generate(kernels, cpu);
  const std::vector<Part> parts = parts_of(whole.kernels, cpu.threads);
  if (parts.size() == 1) {
    add_code(std::move(whole), cpu, module, code);
    return code;
  }
  for (const Part& part : parts)
    add_code(
        codegen::cpp::generate(kernels.subspan(part.begin, part.end - part.begin), cpu, part.begin),
        cpu, module, code);
  return code;
}

codegen::cuda::KernelCode code_of(const LaunchedKernel& launched, const target::Cuda& cuda) {
  if (launched.columns)
    return codegen::cuda::generate_beside(launched.kernel, *launched.columns, cuda);
  if (launched.extents.empty()) return codegen::cuda::generate(launched.kernel, cuda);
  return codegen::cuda::generate_several(launched.kernel, launched.extents, launched.common, cuda);
}

std::vector<KernelCode> generate(std::span<const LaunchedKernel> kernels, const target::Cuda& cuda,
                                 plan::Module& module) {
  std::vector<KernelCode> code;
  for (const LaunchedKernel& launched : kernels) {
    codegen::cuda::KernelCode kernel = code_of(launched, cuda);
    code.push_back({.name = std::move(kernel.name),
                    .code = static_cast<int32_t>(module.code.size()),
                    .launch = plan::Grid{.blocks = kernel.blocks,
                                         .threads = kernel.threads,
                                         .shared_bytes = kernel.shared_bytes},
                    .sizes = std::move(kernel.sizes),
                    .limits = std::move(kernel.limits),
                    .alignment = std::move(kernel.alignment)});
    module.code.push_back({.language = plan::Language::kCuda,
                           .text = std::move(kernel.text),
                           .flags = codegen::cuda::compiler_flags(cuda)});
  }
  return code;
}

}  // namespace

std::string why_no_code(std::span<const LaunchedKernel> kernels, const target::Target& target) {
  if (!std::holds_alternative<target::Cuda>(target)) return "";
  for (const LaunchedKernel& launched : kernels)
    if (const std::string why = codegen::cuda::why_unsupported(launched.kernel); !why.empty())
      return "no code for " + launched.kernel.name + " on a GPU: " + why;
  return "";
}

bool share_launch(const loop::Kernel& rows, const loop::Kernel& columns,
                  const target::Target& target) {
  const auto* cuda = std::get_if<target::Cuda>(&target);
  return cuda && codegen::cuda::share_launch(rows, columns, *cuda);
}

std::vector<KernelCode> generate_code(std::span<const LaunchedKernel> kernels,
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
