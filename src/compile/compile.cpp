#include "compile/compile.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <span>

#include "compile/control_function.h"
#include "compile/direct_function.h"
#include "compile/flex_attention.h"
#include "compile/generate.h"
#include "compile/kernel_function.h"
#include "compile/slots.h"
#include "graph/devices.h"
#include "loop/program.h"
#include "passes/pipeline.h"
#include "schedule/beside.h"
#include "schedule/in_place.h"
#include "schedule/put_off.h"
#include "schedule/schedule.h"
#include "schedule/together.h"

namespace braze::compile {
namespace {

// Adds the time that a scope takes to `seconds`.
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

// The text is made only if somebody listens.
template <class Text>
void dump(const Options& options, const char* stage, Text&& text) {
  if (options.dump) options.dump(stage, text());
}

// False, the graph unchanged, when the graph has to run as it was traced.
bool run_passes(graph::Graph& graph, const Options& options, Timings& timings) {
  StageTimer timer(timings.passes);
  // What is compiled ahead (kernels/) is for CPUs.
  const bool kernels =
      options.backend == Backend::kKernels && std::holds_alternative<target::Cpu>(options.target);
  passes::PipelineOptions pass_options;
  pass_options.check_each = options.check_passes;
  pass_options.channels_last = options.channels_last;
  pass_options.counter_random = options.counter_random;
  pass_options.dropout_mapping = options.dropout_mapping;
  pass_options.activation_memory = options.activation_memory;
  if (kernels) pass_options.panel_products = options.panel_products;
  if (kernels) pass_options.fused_attention = options.fused_attention;
  pass_options.linear_pointwise = options.linear_pointwise && kernels;
  try {
    passes::run_inference_pipeline(graph, pass_options);
    return true;
  } catch (const passes::Unsupported& reason) {
    dump(options, "unsupported", [&] { return std::string(reason.what()); });
    return false;
  }
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

// Numbers the inputs that are floats of the call, in order.
void number_inputs(const graph::Graph& graph, plan::Function& function) {
  int32_t count = 0;
  for (size_t i = 0; i < graph.inputs().size(); ++i)
    if (graph.inputs()[i].kind == graph::InputKind::kNumber) function.slots[i].number = count++;
}

// Bytes of a buffer that is not in the arena of a backward: allocating smaller ones one by one
// costs more than they take.
constexpr int64_t kOwnAbove = 1 << 20;

// By input; empty where none is. What a backward is given may be handed over: it is often the last
// that needs it.
std::vector<bool> handed_over(const graph::Graph& graph) {
  std::vector<bool> result;
  for (const graph::Input& input : graph.inputs())
    result.push_back(input.kind == graph::InputKind::kSaved ||
                     input.kind == graph::InputKind::kTangent);
  return std::ranges::find(result, true) == result.end() ? std::vector<bool>() : result;
}

// Forward and backward in one, with large gradients among the outputs: like a backward, it takes
// memory as it goes.
bool is_large_step(const graph::Graph& graph) {
  const bool has_backward = std::ranges::any_of(graph.nodes(), [&](const auto& node) {
    const graph::Origin* origin = graph.origin(node->origin());
    return origin && origin->is_backward;
  });
  if (!has_backward) return false;
  int64_t bytes = 0;
  for (const graph::Value* output : graph.outputs())
    bytes += output->type().numel().hint() * graph::size_of(output->type().dtype);
  return bytes > kOwnAbove;
}

// By input: whether no other was seen to share its memory.
std::vector<bool> inputs_alone(const graph::Graph& graph) {
  std::map<int, int> count;
  for (const graph::Input& input : graph.inputs()) ++count[input.value->storage()];
  std::vector<bool> alone;
  for (const graph::Input& input : graph.inputs())
    alone.push_back(input.value->storage() < 0 || count[input.value->storage()] == 1);
  return alone;
}

void finish_inputs(const graph::Graph& graph, plan::Function& function) {
  number_inputs(graph, function);
  const std::vector<bool> given = handed_over(graph);
  if ((!given.empty() || is_large_step(graph)) && !function.has_control())
    allocate_by_need(function, given);
}

// The functions of a module, one for each part of the graph. Code is generated once all are there.
class ModuleBuilder {
 public:
  ModuleBuilder(const graph::Graph& graph, const Options& options, Timings& timings)
      : options_(options),
        timings_(timings),
        kernels_wanted_(options.backend == Backend::kKernels) {
    if (!kernels_wanted_ || graph::accelerators(graph).size() <= 1) return;
    kernels_wanted_ = false;
    dump(options_, "unsupported", [] { return std::string("values on several GPUs"); });
  }

  // The number of the function that runs the graph.
  int32_t add(graph::Graph graph, const graph::DataSymbols& data) {
    const auto number = static_cast<int32_t>(module_.functions.size());
    module_.functions.emplace_back();
    plan::Function function;
    if (!data.numbers.empty() || graph::has_control_flow(graph))
      function = control_function(graph, data,
                                  [&](graph::Graph part) { return add(std::move(part), {}); });
    else
      function = straight_function(graph, number);
    if (graph.is_symbolic()) bind_symbols(graph, function);
    const bool waits = !waiting_.empty() && waiting_.back().function == number;
    if (waits)
      waiting_.back().graph = std::move(graph);
    else
      finish_inputs(graph, function);
    module_.functions[number] = std::move(function);
    return number;
  }

  // Copies what the graph says of its inputs and outputs, its constants and its conditions. To be
  // called with the graph as it was given: passes may change these.
  void take_signature(const graph::Graph& graph) {
    module_.target = target::to_string(options_.target);
    for (const graph::Input& input : graph.inputs()) {
      plan::Input& own = module_.inputs.emplace_back(plan::Input{.kind = input.kind});
      if (!input.contents) continue;
      own.constant = static_cast<int32_t>(module_.constants.size());
      module_.constants.push_back({input.value->type(), *input.contents});
    }
    module_.outputs = graph.output_roles();
    conditions_ = graph.conditions();
  }

  plan::Module finish() {
    generate();
    module_.functions[0].conditions = std::move(conditions_);
    plan::verify(module_);
    return std::move(module_);
  }

 private:
  // A function that waits for the code of its kernels, which are kernels_[first] and those behind.
  struct Waiting {
    int32_t function;
    size_t first;
    graph::Graph graph;
    loop::Program program;
    schedule::MemoryPlan memory;
    DistinctKernels kernels;
  };

  // The function of a graph without control flow; an empty one where it waits for code.
  plan::Function straight_function(graph::Graph& graph, int32_t number) {
    const bool functional =
        options_.backend != Backend::kEager && run_passes(graph, options_, timings_);
    if (functional && kernels_wanted_) use_flex_kernels(graph, options_.target);
    dump(options_, "graph", [&] { return graph::to_string(graph); });
    if (!functional || !kernels_wanted_ || !lower(graph, number)) return direct_function(graph);
    return {};
  }

  // False where there is no code for its kernels.
  bool lower(const graph::Graph& graph, int32_t number) {
    const target::Target& target = options_.target;
    Waiting waiting{.function = number, .first = kernels_.size()};
    {
      StageTimer timer(timings_.lower);
      waiting.program = loop::lower(graph, target, options_.deterministic);
    }
    dump(options_, "loops", [&] { return loop::to_string(waiting.program); });
    {
      StageTimer timer(timings_.schedule);
      const bool dies = !handed_over(graph).empty();
      // A call that fails in a later function runs again from the inputs as they were.
      const bool in_place = !dies && number == 0;
      const std::vector<bool> alone = in_place ? inputs_alone(graph) : std::vector<bool>();
      schedule::fuse(waiting.program, target, alone);
      if (in_place) schedule::write_inputs_in_place(waiting.program, target, alone);
      schedule::put_off(waiting.program, target);
      const auto launches = schedule::bring_together(waiting.program, target);
      const bool goes = dies || is_large_step(graph);  // takes memory as it goes
      waiting.memory = schedule::plan_memory(
          waiting.program, target, goes ? std::optional(kOwnAbove) : std::nullopt, launches);
      schedule::remove_copies_in_place(waiting.program, waiting.memory);
      const auto first = schedule::launched_together(waiting.program, waiting.memory, target);
      const auto partner =
          schedule::sharing_launches(waiting.program, waiting.memory, first, target,
                                     [&](const auto& rows, const auto& columns) {
                                       return share_launch(rows, columns, target);
                                     });
      waiting.kernels = distinct_kernels(waiting.program, first, partner);
      if (options_.tuner) note_parameters(waiting.program, waiting.kernels.kernels);
    }
    dump(options_, "schedule", [&] { return loop::to_string(waiting.program); });
    if (const std::string why = why_no_code(waiting.kernels.kernels, target); !why.empty()) {
      dump(options_, "unsupported", [&] { return why; });
      return false;
    }
    for (const LaunchedKernel& kernel : waiting.kernels.kernels) kernels_.push_back(kernel);
    waiting_.push_back(std::move(waiting));
    return true;
  }

  void generate() {
    if (waiting_.empty()) return;
    std::vector<KernelCode> code;
    {
      StageTimer timer(timings_.codegen);
      code = generate_code(kernels_, options_, module_);
    }
    dump(options_, "code", [&] {
      std::string text;
      for (const plan::Code& object : module_.code) text += object.text;
      return text;
    });
    for (const Waiting& waiting : waiting_) {
      plan::Function& function = module_.functions[waiting.function];
      plan::Function made =
          kernel_function(waiting.program, waiting.memory, waiting.kernels,
                          std::span(code).subspan(waiting.first, waiting.kernels.kernels.size()),
                          kernel_device(waiting.graph, options_.target));
      made.symbols = std::move(function.symbols);
      made.arena = std::move(function.arena);
      finish_inputs(waiting.graph, made);
      function = std::move(made);
    }
  }

  const Options& options_;
  Timings& timings_;
  bool kernels_wanted_;
  plan::Module module_;
  std::vector<Waiting> waiting_;
  std::vector<LaunchedKernel> kernels_;
  std::vector<sym::Condition> conditions_;
};

}  // namespace

plan::Module compile(graph::Graph graph, const Options& options, Timings* timings,
                     const graph::DataSymbols& data) {
  Timings unused;
  ModuleBuilder builder(graph, options, timings ? *timings : unused);
  builder.take_signature(graph);
  builder.add(std::move(graph), data);
  return builder.finish();
}

}  // namespace braze::compile
