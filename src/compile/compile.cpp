#include "compile/compile.h"

#include <chrono>

#include "codegen/cpp/codegen.h"
#include "compile/direct_function.h"
#include "compile/kernel_function.h"
#include "loop/program.h"
#include "passes/pipeline.h"
#include "schedule/schedule.h"

namespace braze::compile {
namespace {

// Adds the time of a scope to `*seconds`.
class StageTimer {
 public:
  explicit StageTimer(double& seconds) : seconds_(seconds), start_(Clock::now()) {}
  ~StageTimer() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  StageTimer(const StageTimer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  Clock::time_point start_;
};

// Empty text functions are not called when nobody listens.
template <class Text>
void dump(const Options& options, const char* stage, Text&& text) {
  if (options.dump) options.dump(stage, text());
}

// The target, if kernels are made for it.
const target::Cpu* kernel_target(const Options& options) {
  return options.backend == Backend::kKernels ? std::get_if<target::Cpu>(&options.target) : nullptr;
}

// False, the graph unchanged, when the graph has to run as it was traced.
bool run_passes(graph::Graph& graph, const Options& options, Timings& timings) {
  StageTimer timer(timings.passes);
  const bool kernels = kernel_target(options) != nullptr;
  passes::PipelineOptions pass_options;
  pass_options.check_each = options.check_passes;
  pass_options.panel_products = options.panel_products && kernels;
  pass_options.fused_attention = options.fused_attention && kernels;
  pass_options.linear_pointwise = options.linear_pointwise && kernels;
  try {
    passes::run_inference_pipeline(graph, pass_options);
    return true;
  } catch (const passes::Unsupported& reason) {
    dump(options, "unsupported", [&] { return std::string(reason.what()); });
    return false;
  }
}

// Adds the code of its kernels to the module, if it has any.
plan::Function compile_kernels(const graph::Graph& graph, const target::Cpu& cpu,
                               const Options& options, Timings& timings, plan::Module& module) {
  loop::Program program = [&] {
    StageTimer timer(timings.lower);
    return loop::lower(graph, cpu);
  }();
  dump(options, "loops", [&] { return loop::to_string(program); });
  schedule::MemoryPlan memory;
  DistinctKernels kernels;
  {
    StageTimer timer(timings.schedule);
    schedule::fuse(program, cpu);
    memory = schedule::plan_memory(program, cpu);
    kernels = distinct_kernels(program);
  }
  dump(options, "schedule", [&] { return loop::to_string(program); });
  codegen::cpp::Source source;
  {
    StageTimer timer(timings.codegen);
    if (!kernels.kernels.empty()) source = codegen::cpp::generate(kernels.kernels, cpu);
  }
  dump(options, "code", [&] { return source.text; });
  if (!kernels.kernels.empty())
    module.code.push_back({.language = plan::Language::kCpp,
                           .text = std::move(source.text),
                           .flags = codegen::cpp::compiler_flags(cpu.isa)});
  return kernel_function(program, memory, kernels, source.kernels);
}

// Where the symbols of the graph come from. The slots of inputs are numbered as the inputs are.
void bind_symbols(const graph::Graph& graph, plan::Function& function) {
  function.arena = graph.arena();
  for (int i = 0; i < static_cast<int>(graph.symbols().size()); ++i) {
    const graph::SymbolBinding& binding = graph.symbols()[i];
    const sym::Range range = function.arena->range(i);
    plan::Symbol symbol{.name = function.arena->name(i),
                        .hint = function.arena->symbol_expr(i)->hint,
                        .low = range.low,
                        .high = range.high,
                        .kind = binding.kind,
                        .index = binding.index};
    for (size_t input = 0; input < graph.inputs().size(); ++input)
      if (binding.input == graph.inputs()[input].value)
        symbol.input = static_cast<plan::SlotId>(input);
    function.symbols.push_back(std::move(symbol));
  }
}

}  // namespace

plan::Module compile(graph::Graph graph, const Options& options, Timings* timings) {
  Timings unused;
  if (timings == nullptr) timings = &unused;
  bool functional = options.backend != Backend::kEager && run_passes(graph, options, *timings);
  dump(options, "graph", [&] { return graph::to_string(graph); });
  const target::Cpu* cpu = kernel_target(options);
  plan::Module module;
  module.functions.push_back(functional && cpu
                                 ? compile_kernels(graph, *cpu, options, *timings, module)
                                 : direct_function(graph));
  if (graph.is_symbolic()) bind_symbols(graph, module.functions[0]);
  plan::verify(module);
  return module;
}

}  // namespace braze::compile
