#include "compile/generate.h"

#include <algorithm>

#include "base/log.h"
#include "codegen/cpp/codegen.h"
#include "codegen/cuda/codegen.h"
#include "codegen/triton/codegen.h"
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
                                 const Options&, plan::Module& module) {
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

bool is_constant(const std::array<sym::Int, 3>& numbers) {
  return std::ranges::all_of(numbers,
                             [](sym::Int n) { return n.is_constant() && n.constant() > 0; });
}

Candidate candidate_of(const codegen::cuda::KernelCode& way, const target::Cuda& cuda) {
  Candidate candidate{.name = way.name,
                      .text = way.text,
                      .flags = codegen::cuda::compiler_flags(cuda),
                      .blocks = {},
                      .threads = {},
                      .shared_bytes = way.shared_bytes.constant()};
  for (size_t i = 0; i < 3; ++i) {
    candidate.blocks[i] = way.blocks[i].constant();
    candidate.threads[i] = way.threads[i].constant();
  }
  return candidate;
}

// Of each kernel the way that the tuner takes; no code for those that it has no choice of.
std::vector<std::optional<codegen::cuda::KernelCode>> tuned(std::span<const LaunchedKernel> kernels,
                                                            const target::Cuda& cuda,
                                                            const Tuner& tuner) {
  std::vector<std::optional<codegen::cuda::KernelCode>> code(kernels.size());
  std::vector<std::vector<codegen::cuda::KernelCode>> all;
  std::vector<Candidates> choices;
  std::vector<size_t> places;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].parameters.empty()) continue;
    std::vector<codegen::cuda::KernelCode> ways =
        codegen::cuda::candidates(kernels[i].kernel, cuda);
    std::erase_if(ways, [](const codegen::cuda::KernelCode& way) {
      return !is_constant(way.blocks) || !is_constant(way.threads) ||
             !way.shared_bytes.is_constant() || !way.sizes.empty();
    });
    if (ways.size() < 2) continue;
    Candidates& choice = choices.emplace_back();
    choice.parameters = kernels[i].parameters;
    for (const codegen::cuda::KernelCode& way : ways)
      choice.ways.push_back(candidate_of(way, cuda));
    all.push_back(std::move(ways));
    places.push_back(i);
  }
  if (choices.empty()) return code;
  const std::vector<size_t> chosen = tuner(choices);
  for (size_t i = 0; i < places.size(); ++i) code[places[i]] = std::move(all[i].at(chosen[i]));
  return code;
}

std::string why_not_triton(const LaunchedKernel& launched, const target::Cuda& cuda) {
  if (launched.columns || !launched.extents.empty()) return "several kernels share its launch";
  return codegen::triton::why_unsupported(launched.kernel, cuda);
}

KernelCode add_triton(const loop::Kernel& kernel, const target::Cuda& cuda, plan::Module& module) {
  codegen::triton::KernelCode code = codegen::triton::generate(kernel, cuda);
  const auto number = static_cast<int32_t>(module.code.size());
  module.code.push_back({.language = plan::Language::kTriton,
                         .text = std::move(code.text),
                         .flags = std::move(code.flags)});
  return {.name = std::move(code.name),
          .code = number,
          .launch = plan::Grid{.blocks = code.blocks, .threads = code.threads},
          .sizes = std::move(code.sizes),
          .limits = std::move(code.limits),
          .alignment = std::move(code.alignment)};
}

std::vector<KernelCode> generate(std::span<const LaunchedKernel> kernels, const target::Cuda& cuda,
                                 const Options& options, plan::Module& module) {
  std::vector<KernelCode> code;
  const bool is_triton = options.gpu_codegen == GpuCodegen::kTriton;
  std::vector<std::optional<codegen::cuda::KernelCode>> known(kernels.size());
  if (options.tuner && !is_triton) known = tuned(kernels, cuda, options.tuner);
  for (size_t i = 0; i < kernels.size(); ++i) {
    const LaunchedKernel& launched = kernels[i];
    std::string why;
    if (is_triton) {
      why = why_not_triton(launched, cuda);
      if (why.empty()) {
        code.push_back(add_triton(launched.kernel, cuda, module));
        continue;
      }
      if (log::enabled(log::Component::kSchedule))
        log::write(log::Component::kSchedule,
                   launched.kernel.name + " is CUDA C++ and not Triton: " + why);
    }
    codegen::cuda::KernelCode kernel = known[i] ? std::move(*known[i]) : code_of(launched, cuda);
    if (!why.empty()) kernel.text = "// Not Triton: " + why + ".\n" + kernel.text;
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

void note_parameters(const loop::Program& program, std::vector<LaunchedKernel>& kernels) {
  for (LaunchedKernel& launched : kernels) {
    if (launched.columns || !launched.extents.empty()) continue;
    std::vector<CandidateParameter> parameters;
    for (const loop::BufferParam& param : launched.kernel.params) {
      const graph::TensorType& type = program.buffers[param.buffer].type;
      if (!type.numel().is_constant() ||
          !std::ranges::all_of(type.strides, [](sym::Int s) { return s.is_constant(); }))
        break;
      parameters.push_back({graph::extent_bytes(type), param.by_value});
    }
    if (parameters.size() == launched.kernel.params.size())
      launched.parameters = std::move(parameters);
  }
}

std::vector<KernelCode> generate_code(std::span<const LaunchedKernel> kernels,
                                      const Options& options, plan::Module& module) {
  if (kernels.empty()) return {};
  return std::visit([&](const auto& kind) { return generate(kernels, kind, options, module); },
                    options.target);
}

graph::Device kernel_device(const graph::Graph& graph, const target::Target& target) {
  if (std::holds_alternative<target::Cpu>(target)) return {};
  const std::vector<graph::Device> devices = graph::accelerators(graph);
  return devices.empty() ? graph::Device{} : devices[0];
}

}  // namespace braze::compile
