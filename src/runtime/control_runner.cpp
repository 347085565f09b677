#include "runtime/control_runner.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/clone_ops.h>
#include <c10/util/SmallVector.h>

#include <utility>

#include "runtime/failure.h"
#include "runtime/memory.h"
#include "sym/expr.h"

namespace braze::runtime {
namespace {

using plan::SlotId;

constexpr const char* kOtherSizes = "sizes outside of what the function is for";

c10::Scalar element_of(const at::Tensor& tensor) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  return tensor.item();
}

// What the code behind was made for.
bool has_layout(const at::Tensor& tensor, const graph::TensorType& type,
                std::span<const int64_t> symbols) {
  if (tensor.dim() != type.rank()) return false;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.size(dim) != sym::evaluate(type.sizes[dim], symbols)) return false;
    if (tensor.size(dim) > 1 && tensor.numel() > 0 &&
        tensor.stride(dim) != sym::evaluate(type.strides[dim], symbols))
      return false;
  }
  return true;
}

}  // namespace

ControlRunner::ControlRunner(plan::Function function, std::vector<at::Tensor> constants, Call call,
                             std::function<void()> poll)
    : function_(std::move(function)),
      binder_(function_),
      constants_(std::move(constants)),
      call_(std::move(call)),
      poll_(std::move(poll)) {
  for (const plan::Step& step : function_.steps) {
    const auto* call_step = std::get_if<plan::ExternStep>(&step);
    externs_.push_back(call_step ? std::make_unique<ExternCall>(function_, *call_step) : nullptr);
  }
}

// One call of the function.
class ControlRunner::Run {
 public:
  Run(const ControlRunner& runner, std::span<int64_t> symbols)
      : runner_(runner), symbols_(symbols), slots_(runner.function_.slots.size()) {}

  void bind_inputs(std::span<c10::TensorImpl* const> inputs, std::span<const double> numbers) {
    for (size_t i = 0; i < inputs.size(); ++i) slots_[i] = input(i, inputs[i], numbers);
  }

  void step(size_t number) {
    std::visit([&](const auto& step) { run(step, number); }, runner_.function_.steps[number]);
  }

  const at::Tensor& slot(SlotId slot) const { return slots_[slot]; }

 private:
  at::Tensor input(size_t slot, c10::TensorImpl* given, std::span<const double> numbers) const {
    if (given)
      return at::Tensor(
          c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(given));
    const int32_t number = runner_.function_.slots[slot].number;
    return number < 0 ? runner_.constants_[slot] : number_tensor(numbers[number]);
  }

  [[noreturn]] void fail(const char* what) const {
    runtime::fail(runner_.function_.on_failure, what);
  }
  [[noreturn]] static void unexpected() { BRAZE_UNREACHABLE("a step of a straight-line function"); }
  void run(const plan::KernelStep&, size_t) { unexpected(); }
  void run(const plan::CopyStep&, size_t) { unexpected(); }
  void run(const plan::AllocateStep&, size_t) { unexpected(); }

  void run(const plan::ExternStep&, size_t number) {
    const ExternCall& call = *runner_.externs_[number];
    plan::Numbers numbers;
    std::vector<c10::IValue> arguments;
    const Shapes shapes(runner_.binder_, numbers);
    if (call.has_symbolic_arguments()) {
      try {
        numbers = runner_.binder_.numbers(symbols_);
      } catch (const plan::Unbindable&) {
        fail(kOtherSizes);
      }
      arguments = call.symbolic_arguments(shapes);
    }
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    call.run(slots_, arguments, shapes, ResultCheck::kNone);
  }

  void run(const plan::FreeStep& step, size_t) { slots_[step.slot].reset(); }

  void run(const plan::CallStep& step, size_t) { keep(step.results, call(step.callee, {})); }

  void run(const plan::BranchStep& step, size_t) {
    keep(step.results, call(element_of(slots_[step.predicate]).toBool() ? step.yes : step.no, {}));
  }

  void run(const plan::LoopStep& step, size_t) {
    Tensors carried;
    for (SlotId slot : step.carried) carried.push_back(slots_[slot]);
    bool entered = false;
    while (element_of(call(step.condition, carried).at(0)).toBool()) {
      carried = call(step.body, carried);
      entered = true;
      if (runner_.poll_) runner_.poll_();
    }
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    if (!entered)
      for (at::Tensor& tensor : carried) tensor = at::_ops::clone::call(tensor, std::nullopt);
    keep(step.results, std::move(carried));
  }

  void run(const plan::ReadStep& step, size_t) {
    const at::Tensor& tensor = slots_[step.slot];
    const int64_t value = step.dim < 0 ? element_of(tensor).toLong() : tensor.size(step.dim);
    const plan::Symbol& symbol = runner_.function_.symbols[step.symbol];
    if (value < symbol.low || value > symbol.high) fail("a number read from data is out of range");
    symbols_[step.symbol] = value;
  }

  void run(const plan::ExpectStep& step, size_t) {
    if (!has_layout(slots_[step.slot], runner_.function_.slots[step.slot].type, symbols_))
      fail("an operator gave another layout than when it was traced");
  }

  void run(const plan::AssertStep& step, size_t) {
    if (!sym::holds(step.condition, symbols_)) fail("an assertion on data does not hold");
  }

  Tensors call(const plan::Callee& callee, const Tensors& carried) {
    c10::SmallVector<c10::TensorImpl*, 8> inputs;
    for (SlotId slot : callee.args)
      inputs.push_back((slot >= 0 ? slots_[slot] : carried[-1 - slot]).unsafeGetTensorImpl());
    Tensors outputs;
    runner_.call_(callee.function, inputs, outputs, symbols_);
    return outputs;
  }

  void keep(const std::vector<SlotId>& results, Tensors given) {
    for (size_t i = 0; i < results.size(); ++i) slots_[results[i]] = std::move(given[i]);
  }

  const ControlRunner& runner_;
  std::span<int64_t> symbols_;
  Tensors slots_;
};

void ControlRunner::run(std::span<c10::TensorImpl* const> inputs, Tensors& outputs,
                        std::span<int64_t> symbols, std::span<const double> numbers) const {
  if (!plan::conditions_hold(function_, symbols)) fail(function_.on_failure, kOtherSizes);
  Run run(*this, symbols);
  run.bind_inputs(inputs, numbers);
  for (size_t i = 0; i < function_.steps.size(); ++i) run.step(i);
  for (SlotId output : function_.outputs) outputs.push_back(run.slot(output));
}

}  // namespace braze::runtime
