#include <unordered_map>
#include <unordered_set>

#include "graph/graph.h"
#include "graph/op_kind.h"

namespace braze::graph {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  void run() {
    for (const Input& input : graph_.inputs()) {
      BRAZE_CHECK(input.value && !input.value->producer(), "input '", input.name,
                  "' is the result of a node");
      define(input.value, "input");
      storages_.insert(input.value->storage());
      if (input.contents) check_contents(input);
    }
    check_symbols();
    for (const auto& node : graph_.nodes()) check_node(*node);
    check_uses();
    for (const Value* output : graph_.outputs()) check_defined(output, "a graph output");
    check_mutations();
  }

 private:
  void define(const Value* value, const std::string& where) {
    BRAZE_CHECK(value->id() >= 0 && value->id() < graph_.value_count(), "value number of ", where);
    BRAZE_CHECK(defined_.insert(value).second, "%", value->id(), " is defined twice, by ", where);
    const TensorType& type = value->type();
    BRAZE_CHECK(type.sizes.size() == type.strides.size(), "%", value->id(),
                " has sizes and strides of different length, in ", where);
    check_expressions(type.sizes, where);
    check_expressions(type.strides, where);
    check_expressions({&type.offset, 1}, where);
    for (const sym::Int& size : type.sizes)
      BRAZE_CHECK(!size.is_constant() || size.constant() >= 0, "%", value->id(),
                  " has a negative size, in ", where);
  }

  void check_expressions(std::span<const sym::Int> values, const std::string& where) {
    for (const sym::Int& value : values)
      BRAZE_CHECK(value.is_constant() || value.expr()->arena == graph_.arena().get(),
                  "a symbol of another graph, in ", where);
  }

  static void check_contents(const Input& input) {
    const TensorType& type = input.value->type();
    BRAZE_CHECK(input.kind == InputKind::kConstant, "contents of '", input.name,
                "', which is no constant");
    for (const sym::Dims* dims : {&type.sizes, &type.strides})
      for (const sym::Int& dim : *dims)
        BRAZE_CHECK(dim.is_constant(), "constant '", input.name, "' has a symbolic size");
    BRAZE_CHECK(static_cast<int64_t>(input.contents->size()) == extent_bytes(type), "constant '",
                input.name, "' has ", input.contents->size(), " bytes for ", extent_bytes(type));
  }

  void check_symbols() {
    const int count = graph_.arena() ? graph_.arena()->symbol_count() : 0;
    BRAZE_CHECK(static_cast<int>(graph_.symbols().size()) == count, "symbols without a binding");
    for (int i = 0; i < count; ++i) {
      const SymbolBinding& binding = graph_.symbols()[i];
      const std::string& name = graph_.arena()->name(i);
      if (binding.kind == SymbolBinding::Kind::kScalar) continue;
      BRAZE_CHECK(binding.input && defined_.contains(binding.input), "symbol ", name,
                  " is not bound to an input");
      BRAZE_CHECK(binding.index >= 0 && binding.index < binding.input->type().rank(), "symbol ",
                  name, " is bound to a dimension that its input does not have");
    }
    for (const sym::Condition& condition : graph_.conditions()) {
      const sym::Int sides[] = {condition.a, condition.b};
      check_expressions(sides, "a condition");
    }
  }

  void check_defined(const Value* value, const std::string& where) {
    BRAZE_CHECK(value, "no value for ", where);
    BRAZE_CHECK(defined_.contains(value),
                "a value is used before its definition or is not of this graph, by ", where);
  }

  void check_node(const Node& node) {
    const std::string where = "'" + node.op().name + "'";
    for (const Argument& argument : node.args()) {
      if (auto* value = std::get_if<sym::Int>(&argument)) check_expressions({value, 1}, where);
      if (auto* list = std::get_if<std::vector<sym::Int>>(&argument))
        check_expressions(*list, where);
      for_each_value(argument, [&](const Value* value) {
        BRAZE_CHECK(value && defined_.contains(value),
                    "an operand is not of this graph or used before its definition, by ",
                    value && graph_.owns(value) ? to_string(node) : where);
        ++uses_[value][&node];
      });
    }
    for (size_t i = 0; i < node.results().size(); ++i) {
      const Value* result = node.results()[i];
      if (!result) continue;
      BRAZE_CHECK(result->producer() == &node && result->result_index() == static_cast<int>(i),
                  "producer of %", result->id(), " is out of step, in ", where);
      define(result, where);
    }
    check_effects(node);
    for (const Value* result : node.results()) {
      if (result) storages_.insert(result->storage());
    }
  }

  void check_effects(const Node& node) {
    const Effects& effects = node.op().effects;
    for (int position : node.mutated_arguments()) {
      bool tensors = false;
      for_each_value(node.args()[position], [&](const Value*) { tensors = true; });
      BRAZE_CHECK(tensors, "argument ", position, " is written to but is no tensor, in ",
                  to_string(node));
    }
    for (size_t i = 0; i < node.results().size(); ++i) {
      const Value* result = node.results()[i];
      if (!result) continue;
      const int position = effects.aliased_argument(static_cast<int>(i));
      if (position < 0) {
        BRAZE_CHECK(node.op().kind == OpKind::kUnknown || !storages_.contains(result->storage()),
                    "%", result->id(), " is fresh but shares storage with an earlier value, in ",
                    to_string(node));
        continue;
      }
      // The schema of _unsafe_view promises a fresh tensor, what it gives is a view.
      if (node.op().kind == OpKind::k_unsafe_view) continue;
      BRAZE_CHECK(position < static_cast<int>(node.args().size()), "no argument ", position,
                  " for the result to alias, in ", to_string(node));
      bool aliases = false;
      for_each_value(node.args()[position], [&](const Value* value) {
        aliases = aliases || value->storage() == result->storage();
      });
      BRAZE_CHECK(aliases, "%", result->id(), " does not share the storage of argument ", position,
                  ", in ", to_string(node));
    }
  }

  void check_uses() {
    for (const Value* value : defined_) {
      std::unordered_map<const Node*, int>& expected = uses_[value];
      for (const Node* user : value->users()) --expected[user];
      for (auto& [node, count] : expected)
        BRAZE_CHECK(count == 0, "uses of %", value->id(), " are out of step");
    }
  }

  void check_mutations() {
    std::unordered_set<int> targets;
    for (const Mutation& mutation : graph_.mutations()) {
      check_defined(mutation.target, "a mutation's target");
      check_defined(mutation.source, "a mutation's source");
      const Value& target = *mutation.target;
      bool is_input = false;
      for (const Input& input : graph_.inputs()) is_input = is_input || input.value == &target;
      BRAZE_CHECK(is_input, "mutated value %", target.id(), " is no input");
      BRAZE_CHECK(targets.insert(target.storage()).second, "input %", target.id(),
                  " is mutated twice");
      BRAZE_CHECK(target.type().sizes == mutation.source->type().sizes &&
                      target.type().dtype == mutation.source->type().dtype,
                  "input %", target.id(), " is mutated by a value of another type, %",
                  mutation.source->id(), ": ", to_string(mutation.source->type()));
    }
    for (const Mutation& mutation : graph_.mutations())
      BRAZE_CHECK(!targets.contains(mutation.source->storage()), "input %", mutation.target->id(),
                  " is mutated from %", mutation.source->id(),
                  ", which shares memory with a mutated input");
  }

  const Graph& graph_;
  std::unordered_set<const Value*> defined_;
  std::unordered_set<int> storages_;
  std::unordered_map<const Value*, std::unordered_map<const Node*, int>> uses_;
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).run(); }

void verify_functional(const Graph& graph) {
  verify(graph);
  for (const auto& node : graph.nodes())
    BRAZE_CHECK(node->mutated_arguments().empty(),
                "a node mutates in a functional graph: ", to_string(*node));
}

}  // namespace braze::graph
