#include "passes/again.h"

#include "graph/arguments.h"
#include "graph/data_errors.h"
#include "graph/op_kind.h"

namespace braze::passes {

using graph::Graph;
using graph::Node;
using graph::Value;

bool is_seen(const Node& node) {
  const graph::Effects& effects = node.op().effects;
  return effects.random || effects.opaque || effects.inplace_view ||
         !node.mutated_arguments().empty() || graph::may_refuse_data(node);
}

bool is_free(const Node& node) {
  if (is_seen(node)) return false;
  if (node.op().op_class == graph::OpClass::kView) return true;
  return node.op().op_class == graph::OpClass::kFactory && node.operands().empty();
}

bool is_cheap(const Node& node) {
  return node.op().pointwise && node.results().size() == 1 && !is_seen(node);
}

namespace {

// Whether a dropout's mask is made again. Kernels of halves have little time for an element, and
// the words of four take as long as it takes to load their masks twice; those of single precision
// wait for memory anyway.
bool is_mask_again(const Node& node) {
  constexpr int64_t kPackOfHalves = 8;
  return node.op().kind == graph::OpKind::kbraze_philox_mask &&
         graph::int_arg(node, 5) < kPackOfHalves;
}

}  // namespace

std::vector<bool> made_of_seeds(const Graph& graph) {
  std::vector<bool> made(graph.value_count());
  for (const auto& node : graph.nodes()) {
    if (is_seen(*node)) continue;
    const std::vector<Value*> operands = node->operands();
    const bool again = node->op().pointwise || node->op().view || is_free(*node);
    bool all = again, any = false;
    for (const Value* operand : operands) {
      const Node* producer = operand->producer();
      const bool constant = producer && producer->operands().empty() && is_free(*producer);
      all &= made[operand->id()] || constant;
      any |= made[operand->id()];
    }
    const bool is_source = node->op().kind == graph::OpKind::kbraze_random || is_mask_again(*node);
    for (const Value* result : node->results())
      if (result) made[result->id()] = is_source || (all && any);
  }
  return made;
}

std::set<const Node*> checkpointed(const Graph& graph, const std::set<int>& visible,
                                   const std::function<bool(const Node&)>& is_in_forward) {
  const auto call_of = [&](const Node& node) {
    const graph::Origin* origin = graph.origin(node.origin());
    return origin ? origin->checkpoint : 0;
  };
  std::set<const Node*> again;
  std::set<const Value*> given;  // outside of their call, at once or as a view
  for (auto place = graph.nodes().rbegin(); place != graph.nodes().rend(); ++place) {
    const Node& node = **place;
    if (!is_in_forward(node)) continue;
    const int call = call_of(node);
    bool is_given = false, is_visible = false;
    for (const Value* result : node.results()) {
      if (!result) continue;
      is_given |= given.contains(result);
      is_visible |= visible.contains(result->storage());
    }
    for (const Value* operand : node.operands()) {
      const Node* producer = operand->producer();
      if (producer && (call_of(*producer) != call || (is_given && is_free(node))))
        given.insert(operand);
    }
    if (call > 0 && !is_given && !is_visible && !is_seen(node)) again.insert(&node);
  }
  return again;
}

}  // namespace braze::passes
