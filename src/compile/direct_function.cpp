#include "compile/direct_function.h"

#include <algorithm>

#include "compile/slots.h"
#include "graph/infer/strides.h"
#include "graph/op_kind.h"

namespace braze::compile {
namespace {

using graph::Value;

class DirectBuilder {
 public:
  explicit DirectBuilder(const graph::Graph& graph)
      : graph_(graph), slot_of_(graph.value_count(), plan::SlotId{-1}) {}

  plan::Function build() {
    function_.input_count = static_cast<int32_t>(graph_.inputs().size());
    for (const graph::Input& input : graph_.inputs()) {
      add_slot(input.value, {.kind = plan::SlotKind::kInput, .type = input.value->type()});
    }
    function_.origins = graph_.origins();
    for (const auto& node : graph_.nodes())
      if (!add_copy(*node)) add_call(*node);
    for (const graph::Mutation& mutation : graph_.mutations()) {
      function_.steps.emplace_back(
          plan::CopyStep{.target = slot(mutation.target), .source = slot(mutation.source)});
    }
    for (const Value* output : graph_.outputs()) function_.outputs.push_back(slot(output));
    add_free_steps(function_);
    return std::move(function_);
  }

 private:
  plan::SlotId slot(const Value* value) const { return slot_of_[value->id()]; }

  plan::SlotId add_slot(const Value* value, plan::Slot slot) {
    slot_of_[value->id()] = static_cast<plan::SlotId>(function_.slots.size());
    function_.slots.push_back(std::move(slot));
    return slot_of_[value->id()];
  }

  // aten.copy would copy the whole memory that its first argument is a part of, and leave the
  // result at that place in it; prims.copy_strided is written in Python.
  bool add_copy(const graph::Node& node) {
    const bool strided = node.op().kind == graph::OpKind::kcopy_strided;
    if (!strided && node.op().kind != graph::OpKind::kcopy) return false;
    const auto* like = std::get_if<Value*>(&node.args().at(0));
    const auto* source = strided ? like : std::get_if<Value*>(&node.args().at(1));
    const Value* result = node.results()[0];
    if (!like || !source || !(strided || graph::is_dense(result->type())) ||
        result->type().offset != sym::Int(0))
      return false;
    plan::ExternStep step{.op = "aten.new_empty_strided", .origin = node.origin()};
    const graph::TensorType& type = result->type();
    step.args = {slot(*like),   type.sizes,    type.strides, graph::None{},
                 graph::None{}, graph::None{}, graph::None{}};
    step.results = {add_slot(result, {.kind = plan::SlotKind::kExtern, .type = type})};
    function_.steps.emplace_back(std::move(step));
    function_.steps.emplace_back(plan::ExternStep{.op = "aten.copy_",
                                                  .args = {slot(result), slot(*source), false},
                                                  .results = {slot(result)},
                                                  .origin = node.origin()});
    return true;
  }

  void add_call(const graph::Node& node) {
    plan::ExternStep step{.op = node.op().name, .origin = node.origin()};
    for (const graph::Argument& argument : node.args()) {
      step.args.push_back(map_argument<plan::SlotId, Value*>(
          argument, [this](const Value* value) { return slot(value); }));
    }
    for (size_t i = 0; i < node.results().size(); ++i) {
      step.results.push_back(result_slot(node, static_cast<int>(i)));
    }
    function_.steps.emplace_back(std::move(step));
  }

  plan::SlotId result_slot(const graph::Node& node, int i) {
    const Value* result = node.results()[i];
    if (result == nullptr) return -1;
    const Value* aliased = aliased_value(node, i);
    if (aliased != nullptr && is_written_argument(node, i)) {
      slot_of_[result->id()] = slot(aliased);
      return slot(aliased);
    }
    if (!graph_.has_uses(result)) return -1;
    return add_slot(result, {.kind = plan::SlotKind::kExtern,
                             .type = result->type(),
                             .base = aliased == nullptr ? -1 : slot(aliased)});
  }

  const Value* aliased_value(const graph::Node& node, int i) const {
    int position = node.op().effects.aliased_argument(i);
    if (position < 0 || position >= static_cast<int>(node.args().size())) return nullptr;
    const Value* const* value = std::get_if<Value*>(&node.args()[position]);
    return value == nullptr ? nullptr : *value;
  }

  // The op wrote to the argument and returned it. What changes metadata (t_) gets a slot of its
  // own, which has the type after the change.
  static bool is_written_argument(const graph::Node& node, int i) {
    const graph::Effects& effects = node.op().effects;
    int position = effects.aliased_argument(i);
    return !effects.inplace_view && std::find(effects.mutates.begin(), effects.mutates.end(),
                                              position) != effects.mutates.end();
  }

  const graph::Graph& graph_;
  plan::Function function_;
  std::vector<plan::SlotId> slot_of_;  // by value id
};

}  // namespace

plan::Function direct_function(const graph::Graph& graph) { return DirectBuilder(graph).build(); }

}  // namespace braze::compile
