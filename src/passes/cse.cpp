#include "passes/cse.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_map>

#include "passes/aliasing.h"

namespace braze::passes {
namespace {

using graph::Argument;
using graph::Graph;
using graph::Node;
using graph::Value;

void mix(size_t& hash, size_t value) {
  hash ^= value + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
}

// A hash of what tells nodes apart most often: op, operands, numbers.
size_t hash_of(const Node& node) {
  size_t hash = std::hash<const void*>()(&node.op());
  for (const Argument& argument : node.args()) {
    mix(hash, argument.index());
    for_each_value(argument, [&](const Value* value) { mix(hash, value->id()); });
    auto number = [&](const sym::Int& value) {
      mix(hash, value.is_constant() ? static_cast<size_t>(value.constant())
                                    : std::hash<const void*>()(value.expr()));
    };
    if (auto* value = std::get_if<sym::Int>(&argument)) number(*value);
    if (auto* value = std::get_if<double>(&argument)) mix(hash, std::hash<double>()(*value));
    if (auto* list = std::get_if<std::vector<sym::Int>>(&argument)) {
      for (const sym::Int& value : *list) number(value);
    }
  }
  return hash;
}

bool same(const Value* a, const Value* b) {
  if (!a || !b) return a == b;
  return a->type() == b->type();
}

// 0.0 and -0.0 are different numbers here.
bool same_arguments(const Argument& a, const Argument& b) {
  if (a != b) return false;
  auto* x = std::get_if<double>(&a);
  return !x || std::signbit(*x) == std::signbit(std::get<double>(b));
}

bool same(const Node& a, const Node& b) {
  return &a.op() == &b.op() &&
         std::equal(a.args().begin(), a.args().end(), b.args().begin(), b.args().end(),
                    same_arguments) &&
         std::equal(a.results().begin(), a.results().end(), b.results().begin(), b.results().end(),
                    [](const Value* x, const Value* y) { return same(x, y); });
}

bool may_be_merged(const Node& node) {
  return node.op().effects.pure() && !node.op().effects.inplace_view && !node.results().empty();
}

bool try_merge(Graph& graph, Aliasing& aliasing, Node* node, const Node* earlier) {
  for (size_t i = 0; i < node->results().size(); ++i) {
    if (node->results()[i] && !aliasing.replaceable(node->results()[i], earlier->results()[i]))
      return false;
  }
  for (size_t i = 0; i < node->results().size(); ++i) {
    if (node->results()[i]) aliasing.replace(graph, node->results()[i], earlier->results()[i]);
  }
  graph.erase(node);
  return true;
}

}  // namespace

bool eliminate_common_subexpressions(Graph& graph) {
  Aliasing aliasing(graph);
  std::unordered_multimap<size_t, Node*> seen;
  bool changed = false;
  for (auto place = graph.nodes().begin(); place != graph.nodes().end();) {
    Node* node = place->get();
    ++place;
    if (!may_be_merged(*node)) continue;
    const size_t hash = hash_of(*node);
    const auto [first, last] = seen.equal_range(hash);
    const bool merged = std::any_of(first, last, [&](const auto& entry) {
      return same(*entry.second, *node) && try_merge(graph, aliasing, node, entry.second);
    });
    if (merged)
      changed = true;
    else
      seen.emplace(hash, node);
  }
  if (changed) recompute_storages(graph);
  return changed;
}

}  // namespace braze::passes
