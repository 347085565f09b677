#include "plan/memory_use.h"

#include <algorithm>

#include "plan/binder.h"

namespace braze::plan {
namespace {

class Walk {
 public:
  // `function`: without symbols.
  Walk(const Module& module, const Function& function, const std::vector<bool>& handed_over)
      : module_(module), function_(function), bytes_(function.slots.size()) {
    add(function.arena_bytes);
    std::vector<bool> allocated_late(function.slots.size());
    for (const Step& step : function.steps)
      if (const auto* allocate = std::get_if<AllocateStep>(&step))
        allocated_late[allocate->slot] = true;
    for (size_t i = 0; i < function.slots.size(); ++i) {
      const Slot& slot = function.slots[i];
      const bool is_handed_over =
          slot.kind == SlotKind::kInput && i < handed_over.size() && handed_over[i];
      if (is_handed_over || (slot.kind == SlotKind::kOutput && !allocated_late[i]))
        take(static_cast<SlotId>(i));
    }
  }

  MemoryUse run() {
    for (const Step& step : function_.steps)
      std::visit([this](const auto& one) { take_step(one); }, step);
    for (size_t i = 0; i < bytes_.size(); ++i)
      if (function_.slots[i].kind != SlotKind::kInput) use_.held += bytes_[i];
    return use_;
  }

 private:
  void add(int64_t bytes) {
    now_ += bytes;
    use_.peak = std::max(use_.peak, now_);
  }

  void take(SlotId id) {
    const Slot& slot = function_.slots[id];
    if (bytes_[id] || slot.base >= 0) return;
    bytes_[id] = std::max(slot.bytes, graph::extent_bytes(slot.type));
    add(bytes_[id]);
  }

  // Slots that share memory with what is there are not of kind kExtern, or have a base.
  void take(const std::vector<SlotId>& results) {
    for (const SlotId result : results)
      if (result >= 0 && function_.slots[result].kind == SlotKind::kExtern) take(result);
  }

  void call(const Callee& callee) {
    const MemoryUse inner = of(module_, callee.function, {});
    use_.peak = std::max(use_.peak, now_ + inner.peak);
  }

  void take_step(const KernelStep&) {}
  void take_step(const ExternStep& step) { take(step.results); }
  void take_step(const CopyStep&) {}
  void take_step(const FreeStep& step) {
    now_ -= bytes_[step.slot];
    bytes_[step.slot] = 0;
  }
  void take_step(const AllocateStep& step) { take(step.slot); }
  void take_step(const CallStep& step) {
    call(step.callee);
    take(step.results);
  }
  void take_step(const BranchStep& step) {
    call(step.yes);
    call(step.no);
    take(step.results);
  }
  void take_step(const LoopStep& step) {
    call(step.condition);
    call(step.body);
    take(step.results);
  }
  void take_step(const ReadStep&) {}
  void take_step(const ExpectStep&) {}
  void take_step(const AssertStep&) {}

 public:
  static MemoryUse of(const Module& module, int32_t number, const std::vector<bool>& handed_over) {
    const Function& function = module.functions[number];
    if (!function.is_symbolic()) return Walk(module, function, handed_over).run();
    const Function bound = plan::bind(function, hints(function));
    return Walk(module, bound, handed_over).run();
  }

 private:
  const Module& module_;
  const Function& function_;
  std::vector<int64_t> bytes_;  // by slot: of what it owns now
  int64_t now_ = 0;
  MemoryUse use_;
};

}  // namespace

MemoryUse memory_use(const Module& module, const std::vector<bool>& handed_over) {
  return Walk::of(module, 0, handed_over);
}

}  // namespace braze::plan
