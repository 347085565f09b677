#include "runtime/executable.h"

#include <c10/util/SmallVector.h>

#include <algorithm>
#include <list>
#include <mutex>

#include "base/fork_mutex.h"
#include "runtime/bound_function.h"
#include "toolchain/toolchain.h"

namespace braze::runtime {
namespace {

using Values = c10::SmallVector<int64_t, 8>;  // of a function's symbols

}  // namespace

// A static function is bound once; a symbolic one for each list of values of its symbols, of which
// those used last are kept.
struct Executable::Impl {
  static constexpr size_t kMostBound = 32;
  struct Entry {
    Values values;
    std::shared_ptr<BoundFunction> bound;
  };

  std::string tag;
  std::shared_ptr<toolchain::Library> library;
  std::unique_ptr<PreparedFunction> prepared;
  ArenaPool arenas;
  std::shared_ptr<BoundFunction> fixed;  // of a static function
  ForkMutex mutex;
  // Those with this layout, which has room for all sizes so far; the one used last first.
  std::list<Entry> recent;
  std::shared_ptr<const plan::Layout> layout;
  std::vector<std::unique_ptr<RunContext>> idle;  // the one used last last

  Impl(plan::Module module, std::vector<at::Tensor> constants, std::string name);
  std::shared_ptr<BoundFunction> bound_to(std::span<const int64_t> values);
  std::shared_ptr<BoundFunction> find(std::span<const int64_t> values);
  std::unique_ptr<RunContext> take_context(const BoundFunction& bound);
  void return_context(std::unique_ptr<RunContext> context);
  void run(BoundFunction& bound, std::span<c10::TensorImpl* const> inputs,
           std::vector<at::Tensor>& outputs);
};

Executable::Impl::Impl(plan::Module module, std::vector<at::Tensor> constants, std::string name)
    : tag(std::move(name)) {
  std::vector<KernelFunction> functions;
  std::vector<std::string> names;
  BRAZE_CHECK(module.functions.size() == 1 && module.code.size() <= 1);
  for (const plan::Kernel& kernel : module.functions[0].kernels) names.push_back(kernel.name);
  if (!names.empty()) library = toolchain::build(module.code[0].text, module.code[0].flags, names);
  for (const std::string& kernel : names)
    functions.push_back(reinterpret_cast<KernelFunction>(library->symbol(kernel)));
  prepared = std::make_unique<PreparedFunction>(std::move(module.functions[0]),
                                                std::move(constants), functions);
  const std::vector<int64_t> hints = plan::hints(prepared->function);
  auto first = std::make_shared<BoundFunction>(*prepared, hints, nullptr);
  layout = first->numbers().layout;
  if (!prepared->function.is_symbolic())
    fixed = std::move(first);
  else
    recent.push_back({{hints.begin(), hints.end()}, std::move(first)});
}

std::shared_ptr<BoundFunction> Executable::Impl::find(std::span<const int64_t> values) {
  std::lock_guard lock(mutex);
  for (auto entry = recent.begin(); entry != recent.end(); ++entry) {
    if (!std::ranges::equal(entry->values, values)) continue;
    recent.splice(recent.begin(), recent, entry);
    return entry->bound;
  }
  return nullptr;
}

std::shared_ptr<BoundFunction> Executable::Impl::bound_to(std::span<const int64_t> values) {
  BRAZE_CHECK(values.size() == prepared->function.symbols.size());
  if (auto known = find(values)) return known;
  std::shared_ptr<const plan::Layout> known;
  {
    std::lock_guard lock(mutex);
    known = layout;
  }
  std::shared_ptr<BoundFunction> made;
  try {
    made = std::make_shared<BoundFunction>(*prepared, values, std::move(known));
  } catch (const plan::Unbindable&) {
    throw NeedsEager();
  }
  std::lock_guard lock(mutex);
  if (layout != made->numbers().layout) {
    recent.clear();
    layout = made->numbers().layout;
  }
  recent.push_front({{values.begin(), values.end()}, made});
  if (recent.size() > kMostBound) recent.pop_back();
  return made;
}

std::unique_ptr<RunContext> Executable::Impl::take_context(const BoundFunction& bound) {
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

void Executable::Impl::run(BoundFunction& bound, std::span<c10::TensorImpl* const> inputs,
                           std::vector<at::Tensor>& outputs) {
  BRAZE_CHECK(static_cast<int64_t>(inputs.size()) == prepared->function.input_count);
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

Executable::Executable(plan::Module module, std::vector<at::Tensor> constants, std::string tag)
    : impl_(std::make_unique<Impl>(std::move(module), std::move(constants), std::move(tag))) {}
Executable::~Executable() = default;

void Executable::run(std::span<c10::TensorImpl* const> inputs, std::vector<at::Tensor>& outputs,
                     std::span<const int64_t> symbols) {
  if (impl_->fixed) return impl_->run(*impl_->fixed, inputs, outputs);
  impl_->run(*impl_->bound_to(symbols), inputs, outputs);
}

bool Executable::writes_inputs_early() const { return impl_->prepared->writes_inputs_early(); }

const plan::Function& Executable::function() const { return impl_->prepared->function; }

}  // namespace braze::runtime
