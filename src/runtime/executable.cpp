#include "runtime/executable.h"

#include <list>
#include <mutex>
#include <optional>

#include "runtime/bound_plan.h"
#include "toolchain/toolchain.h"

namespace braze::runtime {

// A static plan is bound once; a symbolic one for each list of values of its symbols, of which
// those used last are kept.
struct Executable::Impl {
  static constexpr size_t kMostBound = 32;
  struct Entry {
    std::vector<int64_t> values;
    std::shared_ptr<BoundPlan> bound;
  };

  plan::Plan plan;  // moved into `fixed` where it is static
  std::vector<at::Tensor> constants;
  std::string tag;
  std::shared_ptr<toolchain::Library> library;
  std::vector<KernelFunction> functions;
  ArenaPool arenas;
  std::shared_ptr<BoundPlan> fixed;
  std::optional<plan::Binder> binder;
  std::shared_ptr<BoundPlan> first;  // whose look-ups the others take over
  std::mutex mutex;
  std::list<Entry> recent;  // the one used last first

  void load();
  std::vector<int64_t> symbol_values(std::span<c10::TensorImpl* const> inputs,
                                     std::span<const int64_t> scalars) const;
  std::shared_ptr<BoundPlan> bound_to(std::vector<int64_t> values);
  std::shared_ptr<BoundPlan> find(const std::vector<int64_t>& values);
  const plan::Plan& any_plan() const { return fixed ? fixed->plan() : plan; }
};

void Executable::Impl::load() {
  if (!plan.kernels.empty()) library = toolchain::build(plan.source, plan.compiler_flags);
  for (const plan::Kernel& kernel : plan.kernels)
    functions.push_back(reinterpret_cast<KernelFunction>(library->symbol(kernel.name)));
  if (!plan.is_symbolic()) {
    fixed = std::make_shared<BoundPlan>(std::move(plan), std::move(constants), functions, nullptr,
                                        nullptr);
    return;
  }
  binder.emplace(plan);
  first = std::make_shared<BoundPlan>(binder->bind(plan::hints(plan)), constants, functions,
                                      &arenas, nullptr);
  recent.push_back({plan::hints(plan), first});
}

std::vector<int64_t> Executable::Impl::symbol_values(std::span<c10::TensorImpl* const> inputs,
                                                     std::span<const int64_t> scalars) const {
  std::vector<int64_t> values;
  values.reserve(plan.symbols.size());
  for (const plan::Symbol& symbol : plan.symbols) {
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

std::shared_ptr<BoundPlan> Executable::Impl::find(const std::vector<int64_t>& values) {
  std::lock_guard lock(mutex);
  for (auto entry = recent.begin(); entry != recent.end(); ++entry) {
    if (entry->values != values) continue;
    recent.splice(recent.begin(), recent, entry);
    return entry->bound;
  }
  return nullptr;
}

std::shared_ptr<BoundPlan> Executable::Impl::bound_to(std::vector<int64_t> values) {
  if (auto known = find(values)) return known;
  std::shared_ptr<BoundPlan> made;
  try {
    made = std::make_shared<BoundPlan>(binder->bind(values), constants, functions, &arenas,
                                       first.get());
  } catch (const plan::Unbindable&) {
    throw NeedsEager();
  }
  std::lock_guard lock(mutex);
  recent.push_front({std::move(values), made});
  if (recent.size() > kMostBound) recent.pop_back();
  return made;
}

Executable::Executable(plan::Plan plan, std::vector<at::Tensor> constants, std::string tag)
    : impl_(std::make_unique<Impl>()) {
  impl_->plan = std::move(plan);
  impl_->constants = std::move(constants);
  impl_->tag = std::move(tag);
  impl_->load();
}
Executable::~Executable() = default;

void Executable::run(std::span<c10::TensorImpl* const> inputs, std::vector<at::Tensor>& outputs,
                     std::span<const int64_t> scalars) {
  if (impl_->fixed) return impl_->fixed->run(inputs, outputs);
  impl_->bound_to(impl_->symbol_values(inputs, scalars))->run(inputs, outputs);
}

bool Executable::writes_inputs_early() const {
  return (impl_->fixed ? impl_->fixed : impl_->first)->writes_inputs_early();
}

const plan::Plan& Executable::plan() const { return impl_->any_plan(); }

}  // namespace braze::runtime
