#include "runtime/executable.h"

#include <algorithm>
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

  std::unique_ptr<Runner> runner_of(plan::Function function, std::vector<at::Tensor> constants,
                                    const std::vector<void*>& loaded,
                                    const std::function<void()>& poll);
};

std::unique_ptr<Executable::Impl::Runner> Executable::Impl::runner_of(
    plan::Function function, std::vector<at::Tensor> constants, const std::vector<void*>& loaded,
    const std::function<void()>& poll) {
  if (function.has_control()) {
    const auto call = [this](int32_t number, std::span<c10::TensorImpl* const> inputs,
                             std::vector<at::Tensor>& outputs, std::span<int64_t> symbols) {
      run(number, inputs, outputs, symbols, {}, {});
    };
    return std::make_unique<Runner>(std::in_place_type<ControlRunner>, std::move(function),
                                    std::move(constants), call, poll);
  }
  return std::make_unique<Runner>(std::in_place_type<FunctionRunner>, std::move(function),
                                  std::move(constants), loaded);
}

Executable::Executable(plan::Module module, std::vector<at::Tensor> bound,
                       std::function<void()> poll)
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
  for (size_t i = 0; i < module.functions.size(); ++i)
    impl_->runners.push_back(impl_->runner_of(std::move(module.functions[i]), std::move(own[i]),
                                              impl_->kernels.functions[i], poll));
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

bool Executable::has_control() const {
  return std::holds_alternative<ControlRunner>(*impl_->runners[0]);
}

const std::vector<graph::OutputRole>& Executable::outputs() const { return impl_->outputs; }

const plan::Function& Executable::function() const { return *impl_->first; }

}  // namespace braze::runtime
