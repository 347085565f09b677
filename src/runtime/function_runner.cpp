#include "runtime/function_runner.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/cuda/driver.h"
#include "runtime/cuda/stream.h"
#include "runtime/executable.h"

namespace braze::runtime {
namespace {

constexpr size_t kMostBound = 32;

}  // namespace

FunctionRunner::FunctionRunner(plan::Function function, std::vector<at::Tensor> constants,
                               const std::vector<LoadedKernel>& kernels,
                               std::optional<std::vector<InputPlace>> graph_inputs)
    : prepared_(
          std::make_unique<PreparedFunction>(std::move(function), std::move(constants), kernels)) {
  const std::vector<int64_t> hints = plan::hints(prepared_->function);
  auto first = std::make_shared<BoundFunction>(*prepared_, hints, nullptr);
  layout_ = first->numbers().layout;
  if (!prepared_->function.is_symbolic())
    fixed_ = std::move(first);
  else if (plan::conditions_hold(prepared_->function, hints))
    recent_.push_back({hints, std::move(first)});
  if (!graph_inputs) return;
  graphs_ = std::make_unique<GraphedFunction>(
      *prepared_, std::move(*graph_inputs),
      [this](auto&&... given) { return run_apart(std::forward<decltype(given)>(given)...); });
}

FunctionRunner::~FunctionRunner() { delete spare_.load(); }

std::shared_ptr<BoundFunction> FunctionRunner::find(std::span<const int64_t> values) {
  std::lock_guard lock(mutex_);
  for (auto binding = recent_.begin(); binding != recent_.end(); ++binding) {
    if (!std::ranges::equal(binding->values, values)) continue;
    recent_.splice(recent_.begin(), recent_, binding);
    return binding->bound;
  }
  return nullptr;
}

std::shared_ptr<BoundFunction> FunctionRunner::bound_to(std::span<const int64_t> values) {
  BRAZE_CHECK(values.size() == prepared_->function.symbols.size());
  if (auto known = find(values)) return known;
  // The guards of a call have seen to it: for a module that somebody else calls.
  if (!plan::conditions_hold(prepared_->function, values)) throw NeedsEager();
  std::shared_ptr<const plan::Layout> known;
  {
    std::lock_guard lock(mutex_);
    known = layout_;
  }
  std::shared_ptr<BoundFunction> made;
  try {
    made = std::make_shared<BoundFunction>(*prepared_, values, std::move(known));
  } catch (const plan::Unbindable&) {
    throw NeedsEager();
  }
  std::lock_guard lock(mutex_);
  if (layout_ != made->numbers().layout) {
    recent_.clear();
    layout_ = made->numbers().layout;
  }
  recent_.push_front({{values.begin(), values.end()}, made});
  if (recent_.size() > kMostBound) recent_.pop_back();
  return made;
}

std::unique_ptr<RunContext> FunctionRunner::take_context(const BoundFunction& bound) {
  std::unique_ptr<RunContext> context(spare_.exchange(nullptr, std::memory_order_acquire));
  if (context == nullptr) {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      context = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (context == nullptr) context = std::make_unique<RunContext>(*prepared_);
  const int64_t bytes = bound.numbers().layout->arena_bytes;
  if (fixed_ && context->arena) return context;  // it stays there
  // Memory of a GPU belongs to the stream of the call, and to its allocator between calls, which
  // gives the same piece again as long as nobody else takes it.
  if (prepared_->on_gpu())
    context->attach(bound, std::make_unique<Arena>(bytes, prepared_->device));
  else
    context->attach(bound, fixed_ ? std::make_unique<Arena>(bytes) : arenas_.take(bytes));
  return context;
}

void FunctionRunner::return_context(std::unique_ptr<RunContext> context) {
  context->forget_call();
  if (prepared_->on_gpu()) {
    if (!fixed_ || context->arena->bytes() > 0) context->arena = nullptr;
  } else if (context->arena->bytes() >= kLargeArena) {
    context->arena = nullptr;
  } else if (!fixed_) {
    arenas_.give(std::move(context->arena));
  }
  // The one that was there, if any, is the colder one.
  context.reset(spare_.exchange(context.release(), std::memory_order_acq_rel));
  if (context == nullptr) return;
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(context));
}

void FunctionRunner::run_bound(BoundFunction& bound, std::span<c10::TensorImpl* const> inputs,
                               std::span<const double> numbers, std::span<at::Tensor> handed_over,
                               std::vector<at::Tensor>& outputs) {
  BRAZE_CHECK(static_cast<int64_t>(inputs.size()) == prepared_->function.input_count);
  std::optional<cuda::CurrentContext> current;
  if (prepared_->on_gpu()) current.emplace(prepared_->context);
  std::unique_ptr<RunContext> context = take_context(bound);
  if (prepared_->on_gpu()) context->stream = cuda::current_stream(prepared_->device);
  context->handed_over = handed_over;
  const size_t before = outputs.size();
  try {
    bound.run(*context, inputs, numbers, outputs);
  } catch (...) {
    // The context may hold half-made tensors: it is not used again. Nothing is swallowed.
    outputs.resize(before);
    throw;
  }
  return_context(std::move(context));
}

std::unique_ptr<RunContext> FunctionRunner::run_apart(BoundFunction& bound,
                                                      std::span<c10::TensorImpl* const> inputs,
                                                      std::span<const double> numbers,
                                                      std::vector<RecordedLaunch>* launches,
                                                      std::vector<at::Tensor>& outputs) const {
  std::optional<cuda::CurrentContext> current;
  if (prepared_->on_gpu()) current.emplace(prepared_->context);
  auto context = std::make_unique<RunContext>(*prepared_);
  const int64_t bytes = bound.numbers().layout->arena_bytes;
  context->attach(bound, prepared_->on_gpu() ? std::make_unique<Arena>(bytes, prepared_->device)
                                             : std::make_unique<Arena>(bytes));
  if (prepared_->on_gpu()) context->stream = cuda::current_stream(prepared_->device);
  context->recorded = launches;
  bound.run(*context, inputs, numbers, outputs);
  context->recorded = nullptr;
  return context;
}

void FunctionRunner::run(std::span<c10::TensorImpl* const> inputs, std::vector<at::Tensor>& outputs,
                         std::span<const int64_t> symbols, std::span<const double> numbers,
                         std::span<at::Tensor> handed_over) {
  if (fixed_ && !graphs_) return run_bound(*fixed_, inputs, numbers, handed_over, outputs);
  const std::shared_ptr<BoundFunction> bound = fixed_ ? fixed_ : bound_to(symbols);
  if (graphs_ && graphs_->run(bound, inputs, numbers, handed_over, outputs)) return;
  run_bound(*bound, inputs, numbers, handed_over, outputs);
}

}  // namespace braze::runtime
