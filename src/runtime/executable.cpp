#include "runtime/executable.h"

#include <algorithm>
#include <optional>
#include <variant>

#include "runtime/constants.h"
#include "runtime/control_runner.h"
#include "runtime/function_runner.h"
#include "runtime/loaded_kernels.h"

namespace braze::runtime {
namespace {

std::vector<at::Tensor> constants_of(const plan::Callee& callee,
                                     const std::vector<at::Tensor>& constants) {
  std::vector<at::Tensor> own;
  for (plan::SlotId slot : callee.args)
    own.push_back(static_cast<size_t>(slot) < constants.size() ? constants[slot] : at::Tensor());
  return own;
}

// For CUDA graphs. Other functions than the first get tensors of the call and what others give.
std::vector<InputPlace> places_of_inputs(const plan::Module& module, size_t function) {
  std::vector<InputPlace> places(module.functions[function].input_count, InputPlace::kVaries);
  if (function > 0) return places;
  for (size_t i = 0; i < places.size(); ++i) {
    const graph::InputKind kind = module.inputs[i].kind;
    if (kind == graph::InputKind::kSaved)
      places[i] = InputPlace::kKept;
    else if (kind != graph::InputKind::kUser && kind != graph::InputKind::kTangent)
      places[i] = InputPlace::kStays;
  }
  return places;
}

}  // namespace

struct Executable::Impl {
  using Runner = std::variant<FunctionRunner, ControlRunner>;

  LoadedKernels kernels;
  std::vector<std::unique_ptr<Runner>> runners;  // by function
  plan::Function const* first = nullptr;
  std::vector<graph::OutputRole> outputs;

  void run(int32_t number, std::span<c10::TensorImpl* const> inputs,
           std::vector<at::Tensor>& outputs, std::span<int64_t> symbols,
           std::span<const double> numbers, std::span<at::Tensor> handed_over) {
    Runner& runner = *runners[number];
    if (auto* straight = std::get_if<FunctionRunner>(&runner))
      straight->run(inputs, outputs, symbols, numbers, handed_over);
    else
      std::get<ControlRunner>(runner).run(inputs, outputs, symbols, numbers);
  }

  using Places = std::optional<std::vector<InputPlace>>;  // as of FunctionRunner
  std::unique_ptr<Runner> runner_of(plan::Function function, std::vector<at::Tensor> constants,
                                    const std::vector<LoadedKernel>& loaded,
                                    const std::function<void()>& poll, Places graph_inputs);
};

std::unique_ptr<Executable::Impl::Runner> Executable::Impl::runner_of(
    plan::Function function, std::vector<at::Tensor> constants,
    const std::vector<LoadedKernel>& loaded, const std::function<void()>& poll,
    Places graph_inputs) {
  if (function.has_control()) {
    const auto call = [this](int32_t number, std::span<c10::TensorImpl* const> inputs,
                             std::vector<at::Tensor>& outputs, std::span<int64_t> symbols) {
      run(number, inputs, outputs, symbols, {}, {});
    };
    return std::make_unique<Runner>(std::in_place_type<ControlRunner>, std::move(function),
                                    std::move(constants), call, poll);
  }
  return std::make_unique<Runner>(std::in_place_type<FunctionRunner>, std::move(function),
                                  std::move(constants), loaded, std::move(graph_inputs));
}

Executable::Executable(plan::Module module, std::vector<at::Tensor> bound,
                       std::function<void()> poll, bool cuda_graphs)
    : impl_(std::make_unique<Impl>()) {
  impl_->kernels = load_kernels(module);
  impl_->outputs = module.outputs;
  std::vector<at::Tensor> constants = all_constants(module, std::move(bound));
  // What the first function hands on of its constants is bound for good there too.
  std::vector<std::vector<at::Tensor>> own(module.functions.size());
  for (const plan::Step& step : module.functions[0].steps)
    if (const auto* call = std::get_if<plan::CallStep>(&step))
      own[call->callee.function] = constants_of(call->callee, constants);
  own[0] = std::move(constants);
  for (size_t i = 0; i < module.functions.size(); ++i) {
    Impl::Places places;
    if (cuda_graphs) places = places_of_inputs(module, i);
    impl_->runners.push_back(impl_->runner_of(std::move(module.functions[i]), std::move(own[i]),
                                              impl_->kernels.functions[i], poll,
                                              std::move(places)));
  }
  const Impl::Runner& first = *impl_->runners[0];
  impl_->first = std::holds_alternative<ControlRunner>(first)
                     ? &std::get<ControlRunner>(first).function()
                     : &std::get<FunctionRunner>(first).prepared().function;
}

Executable::~Executable() = default;

void Executable::run(std::span<c10::TensorImpl* const> inputs, std::vector<at::Tensor>& outputs,
                     std::span<int64_t> symbols, std::span<const double> numbers,
                     std::span<at::Tensor> handed_over) {
  impl_->run(0, inputs, outputs, symbols, numbers, handed_over);
}

bool Executable::writes_inputs_early() const {
  return std::ranges::any_of(impl_->runners, [](const auto& runner) {
    const auto* straight = std::get_if<FunctionRunner>(runner.get());
    return straight && straight->prepared().writes_inputs_early();
  });
}

std::string Executable::graphs() const {
  std::string text;
  for (const auto& runner : impl_->runners) {
    const auto* straight = std::get_if<FunctionRunner>(runner.get());
    if (!straight || !straight->graphs()) continue;
    const GraphedFunction& graphs = *straight->graphs();
    if (!text.empty()) text += "; ";
    if (const std::string why = graphs.why_not(); !why.empty())
      text += "none, as " + why;
    else if (graphs.recorded() == 0)
      text += "none yet, calls that come again are recorded";
    else
      text += detail::concat(graphs.recorded(), " recorded, ", graphs.launched(), " launches");
  }
  return text;
}

bool Executable::has_control() const {
  return std::holds_alternative<ControlRunner>(*impl_->runners[0]);
}

const std::vector<graph::OutputRole>& Executable::outputs() const { return impl_->outputs; }

const plan::Function& Executable::function() const { return *impl_->first; }

}  // namespace braze::runtime
