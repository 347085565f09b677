#include "capture/exit/memory_guards.h"

#include <algorithm>
#include <map>

namespace braze::capture {

namespace {

// By storage number: whether some node writes to it.
std::vector<bool> written_storages(const graph::Graph& graph) {
  std::vector<bool> written;
  for (const auto& node : graph.nodes())
    for (int position : node->mutated_arguments())
      graph::for_each_value(node->args()[static_cast<size_t>(position)], [&](graph::Value* value) {
        const auto storage = static_cast<size_t>(value->storage());
        if (storage >= written.size()) written.resize(storage + 1);
        written[storage] = true;
      });
  return written;
}

}  // namespace

void add_memory_guards(World& world, const graph::Graph& graph,
                       const std::vector<DraftInput>& inputs) {
  const std::vector<bool> written = written_storages(graph);
  if (written.empty()) return;
  const auto storage_of = [&](size_t input) { return graph.inputs()[input].value->storage(); };
  const auto is_written = [&](size_t input) {
    const auto storage = static_cast<size_t>(storage_of(input));
    return inputs[input].source && storage < written.size() && written[storage];
  };
  size_t first_written = 0;
  while (first_written < inputs.size() && !is_written(first_written)) ++first_written;
  if (first_written == inputs.size()) return;
  std::map<int, std::vector<const DraftInput*>> memories[2];  // by storage number: written, others
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].source) memories[is_written(i) ? 0 : 1][storage_of(i)].push_back(&inputs[i]);
  auto details = std::make_unique<guard::GuardDetails>();
  details->written = memories[0].size();
  int number = 0;
  for (const auto& group : memories)
    for (const auto& [storage, members] : group) {
      for (const DraftInput* member : members) {
        details->group.push_back(member->source);
        details->memories.push_back(number);
        if (&group == &memories[0] && member != members.front())
          world.guards().add(
              GuardKind::kSharedMemory, member->source,
              memory_between(members.front()->tensor.get(), member->tensor.get()).get(),
              members.front()->source);
      }
      ++number;
    }
  if (number < 2) return;
  const Source* first = details->group.front();
  world.guards().add({.kind = GuardKind::kDisjointMemory,
                      .source = first,
                      .expected = Ref(),
                      .details = std::move(details)});
}

}  // namespace braze::capture
