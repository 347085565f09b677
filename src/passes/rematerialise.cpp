#include "passes/rematerialise.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <vector>

#include "graph/arguments.h"
#include "passes/activation_budget.h"
#include "passes/again.h"

namespace braze::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

class Rematerialisation {
 public:
  Rematerialisation(Graph& graph, std::optional<int64_t> activation_memory)
      : graph_(graph),
        activation_memory_(activation_memory),
        of_seeds_(made_of_seeds(graph)),
        is_late_(graph.value_count()) {}

  bool run() {
    if (!find_late()) return false;
    find_visible();
    choose();
    if (activation_memory_) keep_within(*activation_memory_);
    if (again_.empty()) return false;
    for (Node* node : late_) {
      take_copies(node, node);
      share_memory(*node);
    }
    return !copies_.empty();
  }

 private:
  bool find_late() {
    for (const auto& node : graph_.nodes()) {
      const graph::Origin* origin = graph_.origin(node->origin());
      bool late = origin && origin->is_backward;
      for (const Value* operand : node->operands()) late |= is_late_[operand->id()];
      if (!late) continue;
      late_.push_back(node.get());
      for (const Value* result : node->results())
        if (result) is_late_[result->id()] = true;
    }
    return !late_.empty();
  }

  bool is_late(const Node& node) const {
    return std::ranges::any_of(
        node.results(), [&](const Value* result) { return result && is_late_[result->id()]; });
  }

  void find_visible() {
    for (const Value* output : graph_.outputs()) visible_.insert(output->storage());
    for (const graph::Mutation& mutation : graph_.mutations()) {
      visible_.insert(mutation.target->storage());
      visible_.insert(mutation.source->storage());
    }
  }

  void choose() {
    again_ = checkpointed(graph_, visible_, [&](const Node& node) { return !is_late(node); });
    find_held();
    for (const auto& node : graph_.nodes()) {
      if (is_late(*node) || again_.contains(node.get()) || makes_visible(*node)) continue;
      if (is_free(*node) || is_of_seeds(*node)) {
        again_.insert(node.get());
        continue;
      }
      const auto is_held = [&](const Value* value) { return value && held_.contains(value); };
      if (!is_cheap(*node) || !std::ranges::any_of(node->results(), is_held)) continue;
      std::set<const Node*> chain;
      bool of_forward = false;
      if (can_be_made(*node, chain, of_forward) && of_forward)
        again_.insert(chain.begin(), chain.end());
    }
  }

  void keep_within(int64_t bytes) {
    const Passage passage{graph_,
                          [&](const Node& node) { return !is_late(node); },
                          [&](const Node& node) { return again_.contains(&node); },
                          [](const Value* value) { return value; },
                          visible_,
                          {}};
    again_.merge(made_again_within(bytes, passage));
  }

  // Memory that the user sees, which what is made again would not share.
  bool makes_visible(const Node& node) const {
    return node.op().op_class != graph::OpClass::kView &&
           std::ranges::any_of(node.results(), [&](const Value* result) {
             return result && visible_.contains(result->storage());
           });
  }

  bool is_of_seeds(const Node& node) const {
    return !node.results().empty() && std::ranges::all_of(node.results(), [&](const Value* result) {
      return result && of_seeds_[result->id()];
    });
  }

  // What lives on into the backward, if nothing but views and checkpointed calls is made again.
  void find_held() {
    std::vector<const Value*> open;
    for (const Node* node : late_)
      for (const Value* operand : node->operands()) open.push_back(operand);
    std::set<const Value*> known;
    while (!open.empty()) {
      const Value* value = open.back();
      open.pop_back();
      if (is_late_[value->id()] || !known.insert(value).second) continue;
      const Node* producer = value->producer();
      if (!producer || (!is_free(*producer) && !again_.contains(producer))) {
        held_.insert(value);
        continue;
      }
      for (const Value* operand : producer->operands()) open.push_back(operand);
    }
  }

  // Collects the nodes that make the node's result of what is held anyway. `of_forward`: some of it
  // is made by the forward; what is made of nothing but inputs (a weight in another precision) is
  // made once.
  bool can_be_made(const Node& node, std::set<const Node*>& chain, bool& of_forward) const {
    if (chain.contains(&node)) return true;
    if (chain.size() >= kMostAgain) return false;
    chain.insert(&node);
    for (const Value* operand : node.operands()) {
      const Node* producer = operand->producer();
      of_forward |= producer && held_.contains(operand);
      if (!producer || held_.contains(operand) || makes_visible(*producer)) continue;
      if (is_late(*producer) || (!is_cheap(*producer) && !is_free(*producer))) return false;
      if (!can_be_made(*producer, chain, of_forward)) return false;
    }
    return true;
  }

  // The node takes copies, made before `place`, of what is made again.
  void take_copies(Node* node, Node* place) {
    for (Value* operand : node->operands()) {
      const Node* producer = operand->producer();
      const bool is_early =
          operand->id() < static_cast<int>(is_late_.size()) && !is_late_[operand->id()];
      if (producer && is_early && again_.contains(producer))
        node->replace_operand(operand, copy_of(operand, place));
    }
  }

  // Views are in the memory of what they are taken of now.
  static void share_memory(const Node& node) {
    for (Value* result : node.results()) {
      if (!result) continue;
      const int argument = node.op().effects.aliased_argument(result->result_index());
      if (argument >= 0) result->set_storage(graph::tensor_arg(node, argument)->storage());
    }
  }

  Value* copy_of(Value* value, Node* place) {
    if (const auto known = copies_.find(value); known != copies_.end()) return known->second;
    Node* node = value->producer();
    std::vector<graph::TensorType> types;
    for (const Value* result : node->results())
      types.push_back(result ? result->type() : graph::TensorType());
    Node* copy = graph_.add_node(node->op(), node->args(), std::move(types), node->origin(), place);
    take_copies(copy, copy);
    share_memory(*copy);
    for (size_t i = 0; i < node->results().size(); ++i) {
      const Value* result = node->results()[i];
      if (!result) {
        graph_.set_result_undefined(copy, static_cast<int>(i));
        continue;
      }
      copies_.emplace(result, copy->result(static_cast<int>(i)));
    }
    return copies_.at(value);
  }

  Graph& graph_;
  const std::optional<int64_t> activation_memory_;
  const std::vector<bool> of_seeds_;
  std::vector<bool> is_late_;    // by value of the graph as it was
  std::vector<Node*> late_;      // in order
  std::set<int> visible_;        // storages
  std::set<const Value*> held_;  // from the forward to the backward
  std::set<const Node*> again_;  // made again
  std::unordered_map<const Value*, Value*> copies_;
};

}  // namespace

bool rematerialise(Graph& graph) { return Rematerialisation(graph, {}).run(); }

bool rematerialise_within(Graph& graph, int64_t activation_memory) {
  return Rematerialisation(graph, activation_memory).run();
}

}  // namespace braze::passes
