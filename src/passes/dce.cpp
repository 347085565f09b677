#include "passes/dce.h"

#include <algorithm>
#include <vector>

#include "graph/data_errors.h"

namespace braze::passes {

using graph::Graph;
using graph::Node;
using graph::Value;

bool eliminate_dead_code(Graph& graph) {
  std::vector<bool> escapes(graph.value_count());
  for (const Value* output : graph.outputs()) escapes[output->id()] = true;
  for (const graph::Mutation& mutation : graph.mutations()) escapes[mutation.source->id()] = true;
  auto dead = [&](const Node& node) {
    const graph::Effects& effects = node.op().effects;
    if (effects.random || effects.opaque || effects.inplace_view) return false;
    const bool unused =
        std::all_of(node.results().begin(), node.results().end(), [&](const Value* result) {
          return !result || (result->users().empty() && !escapes[result->id()]);
        });
    return unused && node.mutated_arguments().empty() && !graph::may_refuse_data(node);
  };
  bool changed = false;
  for (auto place = graph.nodes().end(); place != graph.nodes().begin();) {
    auto current = std::prev(place);
    if (dead(**current)) {
      graph.erase(current->get());
      changed = true;
    } else {
      place = current;
    }
  }
  return changed;
}

}  // namespace braze::passes
