// What holds for any kind of step: which slots it names, whether it is a control step.
#include <algorithm>

#include "plan/function.h"

namespace braze::plan {
namespace {

class Collector {
 public:
  void operator()(const KernelStep& step) { add(step.args); }
  void operator()(const ExternStep& step) {
    for (const Argument& argument : step.args) {
      if (const auto* slot = std::get_if<SlotId>(&argument)) add(*slot);
      if (const auto* list = std::get_if<std::vector<SlotId>>(&argument)) add(*list);
      if (const auto* list = std::get_if<graph::OptionalRefs<SlotId>>(&argument))
        for (const std::optional<SlotId>& slot : list->refs) add(slot.value_or(-1));
    }
    add(step.results);
  }
  void operator()(const CopyStep& step) {
    add(step.target);
    add(step.source);
  }
  void operator()(const FreeStep& step) { add(step.slot); }
  void operator()(const CallStep& step) {
    add(step.callee.args);
    add(step.results);
  }
  void operator()(const BranchStep& step) {
    add(step.predicate);
    add(step.yes.args);
    add(step.no.args);
    add(step.results);
  }
  void operator()(const LoopStep& step) {
    add(step.condition.args);
    add(step.body.args);
    add(step.carried);
    add(step.results);
  }
  void operator()(const ReadStep& step) { add(step.slot); }
  void operator()(const ExpectStep& step) { add(step.slot); }
  void operator()(const AssertStep&) {}

  std::vector<SlotId> take() { return std::move(slots_); }

 private:
  void add(SlotId slot) {
    if (slot >= 0) slots_.push_back(slot);
  }
  void add(const std::vector<SlotId>& slots) {
    for (SlotId slot : slots) add(slot);
  }

  std::vector<SlotId> slots_;
};

}  // namespace

std::vector<SlotId> slots_of(const Step& step) {
  Collector collector;
  std::visit(collector, step);
  return collector.take();
}

bool is_control(const Step& step) {
  return !std::holds_alternative<KernelStep>(step) && !std::holds_alternative<ExternStep>(step) &&
         !std::holds_alternative<CopyStep>(step) && !std::holds_alternative<FreeStep>(step);
}

bool Function::has_control() const { return std::ranges::any_of(steps, is_control); }

}  // namespace braze::plan
