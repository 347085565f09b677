#include "runtime/executable.h"

#include <c10/util/SmallVector.h>

#include <list>
#include <mutex>

#include "base/fork_mutex.h"
#include "runtime/bound_plan.h"
#include "toolchain/toolchain.h"

namespace braze::runtime {
namespace {

using Values = c10::SmallVector<int64_t, 8>;  // of a plan's symbols

}  // namespace

// A static plan is bound once; a symbolic one for each list of values of its symbols, of which
// those used last are kept.
struct Executable::Impl {
  static constexpr size_t kMostBound = 32;
  struct Entry {
    Values values;
    std::shared_ptr<BoundPlan> bound;
  };

  std::string tag;
  std::shared_ptr<toolchain::Library> library;
  std::unique_ptr<PreparedPlan> prepared;
  ArenaPool arenas;
  std::shared_ptr<BoundPlan> fixed;  // of a static plan
  ForkMutex mutex;
  // Those with this layout, which has room for all sizes so far; the one used last first.
  std::list<Entry> recent;
  std::shared_ptr<const plan::Layout> layout;
  std::vector<std::unique_ptr<RunContext>> idle;  // the one used last last

  Impl(plan::Plan plan, std::vector<at::Tensor> constants, std::string name);
  Values symbol_values(std::span<c10::TensorImpl* const> inputs,
                       std::span<const int64_t> scalars) const;
  std::shared_ptr<BoundPlan> bound_to(const Values& values);
  std::shared_ptr<BoundPlan> find(const Values& values);
  std::unique_ptr<RunContext> take_context(const BoundPlan& bound);
  void return_context(std::unique_ptr<RunContext> context);
  void run(BoundPlan& bound, std::span<c10::TensorImpl* const> inputs,
           std::vector<at::Tensor>& outputs);
};

Executable::Impl::Impl(plan::Plan plan, std::vector<at::Tensor> constants, std::string name)
    : tag(std::move(name)) {
  std::vector<KernelFunction> functions;
  std::vector<std::string> names;
  for (const plan::Kernel& kernel : plan.kernels) names.push_back(kernel.name);
  if (!names.empty()) library = toolchain::build(plan.source, plan.compiler_flags, names);
  for (const std::string& kernel : names)
    functions.push_back(reinterpret_cast<KernelFunction>(library->symbol(kernel)));
  prepared = std::make_unique<PreparedPlan>(std::move(plan), std::move(constants), functions);
  const std::vector<int64_t> hints = plan::hints(prepared->plan);
  auto first = std::make_shared<BoundPlan>(*prepared, hints, nullptr);
  layout = first->numbers().layout;
  if (!prepared->plan.is_symbolic())
    fixed = std::move(first);
  else
    recent.push_back({{hints.begin(), hints.end()}, std::move(first)});
}

Values Executable::Impl::symbol_values(std::span<c10::TensorImpl* const> inputs,
                                       std::span<const int64_t> scalars) const {
  Values values;
  const std::vector<at::Tensor>& constants = prepared->constants;
  for (const plan::Symbol& symbol : prepared->plan.symbols) {
    if (symbol.kind == plan::Symbol::Kind::kScalar) {
      BRAZE_CHECK(symbol.index < static_cast<int64_t>(scalars.size()), "no value for ",
                  symbol.name);
      values.push_back(scalars[symbol.index]);
      continue;
    }
    const bool constant =
        symbol.input < static_cast<int64_t>(constants.size()) && constants[symbol.input].defined();
    const c10::TensorImpl* input =
        constant ? constants[symbol.input].unsafeGetTensorImpl() : inputs[symbol.input];
    values.push_back(symbol.kind == plan::Symbol::Kind::kSize ? input->size(symbol.index)
                                                              : input->stride(symbol.index));
  }
  return values;
}

std::shared_ptr<BoundPlan> Executable::Impl::find(const Values& values) {
  std::lock_guard lock(mutex);
  for (auto entry = recent.begin(); entry != recent.end(); ++entry) {
    if (entry->values != values) continue;
    recent.splice(recent.begin(), recent, entry);
    return entry->bound;
  }
  return nullptr;
}

std::shared_ptr<BoundPlan> Executable::Impl::bound_to(const Values& values) {
  if (auto known = find(values)) return known;
  std::shared_ptr<const plan::Layout> known;
  {
    std::lock_guard lock(mutex);
    known = layout;
  }
  std::shared_ptr<BoundPlan> made;
  try {
    made = std::make_shared<BoundPlan>(*prepared, values, std::move(known));
  } catch (const plan::Unbindable&) {
    throw NeedsEager();
  }
  std::lock_guard lock(mutex);
  if (layout != made->numbers().layout) {
    recent.clear();
    layout = made->numbers().layout;
  }
  recent.push_front({values, made});
  if (recent.size() > kMostBound) recent.pop_back();
  return made;
}

std::unique_ptr<RunContext> Executable::Impl::take_context(const BoundPlan& bound) {
  std::unique_ptr<RunContext> context;
  {
    std::lock_guard lock(mutex);
    if (!idle.empty()) {
      context = std::move(idle.back());
      idle.pop_back();
    }
  }
  if (context == nullptr) context = std::make_unique<RunContext>(*prepared);
  const int64_t bytes = bound.numbers().layout->arena_bytes;
  if (!fixed)
    context->attach(bound, arenas.take(bytes));
  else if (!context->arena)  // it stays there
    context->attach(bound, std::make_unique<Arena>(bytes));
  return context;
}

void Executable::Impl::return_context(std::unique_ptr<RunContext> context) {
  context->forget_call();
  if (!fixed) arenas.give(std::move(context->arena));
  std::lock_guard lock(mutex);
  idle.push_back(std::move(context));
}

void Executable::Impl::run(BoundPlan& bound, std::span<c10::TensorImpl* const> inputs,
                           std::vector<at::Tensor>& outputs) {
  BRAZE_CHECK(static_cast<int64_t>(inputs.size()) == prepared->plan.input_count);
  std::unique_ptr<RunContext> context = take_context(bound);
  const size_t before = outputs.size();
  try {
    bound.run(*context, inputs, outputs);
  } catch (...) {
    // The context may hold half-made tensors: it is not used again. Nothing is swallowed.
    outputs.resize(before);
    throw;
  }
  return_context(std::move(context));
}

Executable::Executable(plan::Plan plan, std::vector<at::Tensor> constants, std::string tag)
    : impl_(std::make_unique<Impl>(std::move(plan), std::move(constants), std::move(tag))) {}
Executable::~Executable() = default;

void Executable::run(std::span<c10::TensorImpl* const> inputs, std::vector<at::Tensor>& outputs,
                     std::span<const int64_t> scalars) {
  if (impl_->fixed) return impl_->run(*impl_->fixed, inputs, outputs);
  impl_->run(*impl_->bound_to(impl_->symbol_values(inputs, scalars)), inputs, outputs);
}

bool Executable::writes_inputs_early() const { return impl_->prepared->writes_inputs_early(); }

const plan::Plan& Executable::plan() const { return impl_->prepared->plan; }

}  // namespace braze::runtime
