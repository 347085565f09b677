#include "compile/slots.h"

namespace braze::compile {

void add_free_steps(plan::Function& function) {
  constexpr int kKept = -1;
  std::vector<int> last_use(function.slots.size(), kKept);
  for (size_t i = 0; i < function.steps.size(); ++i)
    for (plan::SlotId slot : plan::slots_of(function.steps[i]))
      last_use[plan::root_of(function, slot)] = static_cast<int>(i);
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

void allocate_by_need(plan::Function& function, const std::vector<bool>& handed_over) {
  constexpr size_t kNever = static_cast<size_t>(-1);
  const size_t count = function.slots.size();
  std::vector<size_t> first_use(count, kNever), last_use(count, kNever);
  for (size_t i = 0; i < function.steps.size(); ++i)
    for (plan::SlotId named : plan::slots_of(function.steps[i]))
      for (plan::SlotId slot = named; slot >= 0; slot = function.slots[slot].base) {
        if (first_use[slot] == kNever) first_use[slot] = i;
        last_use[slot] = i;
      }
  for (const plan::SlotId output : function.outputs)
    for (plan::SlotId slot = output; slot >= 0; slot = function.slots[slot].base)
      last_use[slot] = kNever;

  std::vector<std::vector<plan::SlotId>> dying(function.steps.size()), born(function.steps.size());
  for (size_t i = 0; i < count; ++i) {
    const auto slot = static_cast<plan::SlotId>(i);
    const bool is_own = function.slots[i].kind == plan::SlotKind::kOutput;
    if (is_own && first_use[i] != kNever) born[first_use[i]].push_back(slot);
    const bool is_freed = is_own || (i < handed_over.size() && handed_over[i]);
    if (is_freed && last_use[i] != kNever) dying[last_use[i]].push_back(slot);
  }
  std::vector<plan::Step> steps;
  for (size_t i = 0; i < function.steps.size(); ++i) {
    for (const plan::SlotId slot : born[i]) steps.emplace_back(plan::AllocateStep{slot});
    steps.push_back(std::move(function.steps[i]));
    for (const plan::SlotId slot : dying[i]) steps.emplace_back(plan::FreeStep{slot});
  }
  function.steps = std::move(steps);
}

}  // namespace braze::compile
