#include "compile/control_function.h"

#include <algorithm>

#include "base/error.h"
#include "compile/slots.h"
#include "sym/symbols.h"

namespace braze::compile {
namespace {

using plan::SlotId;

class ControlBuilder {
 public:
  ControlBuilder(const graph::Graph& graph, const graph::DataSymbols& data,
                 const std::function<int32_t(graph::Graph)>& add)
      : data_(data),
        add_(add),
        staged_(graph::split_at_data(graph, data.numbers)),
        slot_of_(graph.value_count(), SlotId{-1}),
        types_(graph.value_count()),
        known_(graph.symbols().size(), true),
        asserted_(data.assertions.size(), false) {
    for (int symbol : data.numbers) known_[symbol] = false;
    for (const graph::Input& input : graph.inputs())
      types_[input.value->id()] = input.value->type();
    for (const auto& node : graph.nodes())
      for (const graph::Value* result : node->results())
        if (result) types_[result->id()] = result->type();
  }

  plan::Function build() {
    function_.input_count = static_cast<int32_t>(staged_.inputs.size());
    for (int input : staged_.inputs) add_slot(input, plan::SlotKind::kInput);
    for (graph::Stage& stage : staged_.stages) add_stage(stage);
    function_.outputs = slots(staged_.outputs);
    add_free_steps(function_);
    return std::move(function_);
  }

 private:
  SlotId add_slot(int value, plan::SlotKind kind) {
    slot_of_[value] = static_cast<SlotId>(function_.slots.size());
    function_.slots.push_back({.kind = kind, .type = types_[value]});
    return slot_of_[value];
  }
  std::vector<SlotId> slots(const std::vector<int>& values) const {
    std::vector<SlotId> slots;
    for (int value : values) slots.push_back(slot_of_[value]);
    return slots;
  }
  std::vector<SlotId> new_slots(const std::vector<int>& values) {
    std::vector<SlotId> slots;
    for (int value : values)
      slots.push_back(value < 0 ? SlotId{-1} : add_slot(value, plan::SlotKind::kExtern));
    return slots;
  }

  plan::Callee callee(graph::Graph part, const std::vector<int>& inputs) {
    plan::Callee callee;
    for (int input : inputs) callee.args.push_back(input < 0 ? input : slot_of_[input]);
    callee.function = add_(std::move(part));
    return callee;
  }
  plan::Callee callee(graph::Region& region) {
    return callee(std::move(region.graph), region.inputs);
  }

  void add_stage(graph::Stage& stage) {
    if (!stage.empty()) {
      plan::CallStep call{.callee = callee(std::move(stage.graph), stage.inputs)};
      call.results = new_slots(stage.outputs);
      function_.steps.emplace_back(std::move(call));
    }
    if (stage.read) add_read(*stage.read);
    if (stage.cond) add_branch(*stage.cond);
    if (stage.loop) add_loop(*stage.loop);
  }

  void add_read(const graph::Stage::Read& read) {
    std::vector<SlotId> results;
    if (read.op != graph::kItem) {
      plan::ExternStep step{.op = read.op};
      for (const auto& argument : read.args)
        step.args.push_back(
            map_argument<SlotId, int>(argument, [this](int value) { return slot_of_[value]; }));
      step.results = results = new_slots(read.results);
      function_.steps.emplace_back(std::move(step));
    }
    for (const auto& size : read.symbols) {
      const SlotId slot =
          size.result < 0 ? slot_of_[std::get<int>(read.args[0])] : results[size.result];
      function_.steps.emplace_back(plan::ReadStep{
          .slot = slot, .dim = size.result < 0 ? -1 : size.dim, .symbol = size.symbol});
      known_[size.symbol] = true;
    }
    for (SlotId slot : results)
      if (slot >= 0) function_.steps.emplace_back(plan::ExpectStep{slot});
    add_assertions();
  }

  // Adds the assertions all of whose symbols have their values now.
  void add_assertions() {
    for (size_t i = 0; i < data_.assertions.size(); ++i) {
      bool known = !asserted_[i];
      sym::for_each_symbol(data_.assertions[i],
                           [&](int symbol) { known = known && known_[symbol]; });
      if (!known) continue;
      asserted_[i] = true;
      function_.steps.emplace_back(plan::AssertStep{data_.assertions[i]});
    }
  }

  void add_branch(graph::Stage::Cond& cond) {
    plan::BranchStep step{.predicate = slot_of_[cond.predicate]};
    step.yes = callee(cond.yes);
    step.no = callee(cond.no);
    step.results = new_slots(cond.results);
    function_.steps.emplace_back(std::move(step));
  }

  void add_loop(graph::Stage::Loop& loop) {
    plan::LoopStep step;
    step.condition = callee(loop.condition);
    step.body = callee(loop.body);
    step.carried = slots(loop.carried);
    step.results = new_slots(loop.results);
    function_.steps.emplace_back(std::move(step));
  }

  const graph::DataSymbols& data_;
  const std::function<int32_t(graph::Graph)>& add_;
  graph::Staged staged_;
  std::vector<SlotId> slot_of_;           // by value
  std::vector<graph::TensorType> types_;  // by value
  std::vector<bool> known_;               // by symbol
  std::vector<bool> asserted_;            // by assertion
  plan::Function function_;
};

}  // namespace

plan::Function control_function(const graph::Graph& graph, const graph::DataSymbols& data,
                                const std::function<int32_t(graph::Graph)>& add) {
  return ControlBuilder(graph, data, add).build();
}

}  // namespace braze::compile
