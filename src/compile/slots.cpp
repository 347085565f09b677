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

}  // namespace braze::compile
