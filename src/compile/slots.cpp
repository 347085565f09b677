#include "compile/slots.h"

namespace braze::compile {
namespace {

void collect(const plan::Step& step, std::vector<plan::SlotId>& slots) {
  if (const auto* kernel = std::get_if<plan::KernelStep>(&step)) {
    slots.insert(slots.end(), kernel->args.begin(), kernel->args.end());
  } else if (const auto* call = std::get_if<plan::ExternStep>(&step)) {
    for (const plan::Argument& argument : call->args) {
      for_each_ref<plan::SlotId>(argument, [&](plan::SlotId slot) { slots.push_back(slot); });
    }
    for (plan::SlotId slot : call->results) {
      if (slot >= 0) slots.push_back(slot);
    }
  } else if (const auto* copy = std::get_if<plan::CopyStep>(&step)) {
    slots.insert(slots.end(), {copy->target, copy->source});
  }
}

}  // namespace

void add_free_steps(plan::Function& function) {
  constexpr int kKept = -1;
  std::vector<int> last_use(function.slots.size(), kKept);
  std::vector<plan::SlotId> slots;
  for (size_t i = 0; i < function.steps.size(); ++i) {
    slots.clear();
    collect(function.steps[i], slots);
    for (plan::SlotId slot : slots) last_use[plan::root_of(function, slot)] = static_cast<int>(i);
  }
  for (plan::SlotId output : function.outputs) last_use[plan::root_of(function, output)] = kKept;

  std::vector<std::vector<plan::SlotId>> dying(function.steps.size());
  for (size_t slot = 0; slot < function.slots.size(); ++slot) {
    if (function.slots[slot].kind == plan::SlotKind::kExtern && last_use[slot] != kKept) {
      dying[last_use[slot]].push_back(static_cast<plan::SlotId>(slot));
    }
  }
  std::vector<plan::Step> steps;
  for (size_t i = 0; i < function.steps.size(); ++i) {
    steps.push_back(std::move(function.steps[i]));
    for (plan::SlotId slot : dying[i]) steps.emplace_back(plan::FreeStep{slot});
  }
  function.steps = std::move(steps);
}

}  // namespace braze::compile
