#include "dispatch/input_versions.h"

#include "graph/in_place.h"

namespace braze::dispatch {
namespace {

using graph::Value;

// The schema of batch norm does not say that it writes to the running statistics, so autograd,
// which keeps the counters, does not see that.
bool is_counted(const graph::Node& node) { return !node.op().has(graph::kRunningStatistics); }

// By input.
template <class Counts, class Place>
std::vector<int> writes_by_input(const graph::Graph& graph, Counts&& is_counted, Place&& place_of) {
  std::vector<int> counts(graph.value_count());
  for (const auto& node : graph.nodes()) {
    if (!is_counted(*node)) continue;
    const auto count = [&](const Value* value) { ++counts[place_of(value)->id()]; };
    for (int position : node->mutated_arguments())
      graph::for_each_value(node->args()[position], count);
    if (node->op().effects.inplace_view) graph::for_each_value(node->args()[0], count);
  }
  std::vector<int> by_input;
  for (const graph::Input& input : graph.inputs()) by_input.push_back(counts[input.value->id()]);
  return by_input;
}

}  // namespace

std::vector<InputWrites> count_writes(const graph::Graph& graph) {
  std::vector<InputWrites> writes;
  const auto counted = [&](const Value* value) { return graph::counted_with(graph, value); };
  int input = 0;
  for (int count : writes_by_input(graph, is_counted, counted)) {
    count += graph.inputs()[input].reshapes;
    if (count) writes.push_back({input, count});
    ++input;
  }
  return writes;
}

std::vector<int> written_inputs(const graph::Graph& graph) {
  std::vector<int> written;
  int input = 0;
  const auto all = [](const graph::Node&) { return true; };
  const auto base = [](const Value* value) {
    while (const Value* of = graph::aliased_by(value)) value = of;
    return value;
  };
  for (const int count : writes_by_input(graph, all, base)) {
    if (count) written.push_back(input);
    ++input;
  }
  return written;
}

void add_versions(std::span<const InputWrites> writes, c10::TensorImpl* const* inputs) {
  for (const auto [input, count] : writes) {
    c10::TensorImpl* tensor = inputs[input];
    if (!tensor || tensor->is_inference()) continue;
    for (int i = 0; i < count; ++i) tensor->bump_version();
  }
}

}  // namespace braze::dispatch
