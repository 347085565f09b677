#include "schedule/input_writes.h"

#include <algorithm>
#include <utility>

#include "schedule/liveness.h"
#include "schedule/refusals.h"

namespace braze::schedule {
InputWrites::InputWrites(const loop::Program& program, const Aliases& aliases,
                         const std::vector<bool>& alone) {
  std::vector<int> ends(program.buffers.size(), 0);
  for (int output : program.outputs) ++ends[aliases.root(output)];
  for (const auto& [target, source] : program.mutations) {
    ++ends[aliases.root(source)];
    ++ends[aliases.root(target)];
  }
  for (const auto& [target, source] : program.mutations) {
    const loop::Buffer &to = program.buffers[target], &from = program.buffers[source];
    if (to.kind != loop::Buffer::Kind::kInput || from.kind != loop::Buffer::Kind::kComputed)
      continue;
    const auto input = static_cast<size_t>(to.input);
    if (input >= alone.size() || !alone[input] || from.type != to.type) continue;
    if (ends[source] == 1 && ends[target] == 1) pairs_.push_back({target, source});
  }
}

ItemGraph::Constraints InputWrites::constraints(const loop::Program& program,
                                                const Aliases& aliases) const {
  ItemGraph::Constraints constraints;
  if (pairs_.empty()) return constraints;
  std::vector<int> becomes(program.buffers.size(), -1);  // by root: the input that it goes into
  for (const Pair& pair : pairs_) becomes[pair.source] = pair.input;
  std::vector<std::vector<int>> readers(program.buffers.size());
  const std::vector<bool> refuses = refusals(program, aliases);
  std::vector<int> waiting;  // items that the next barrier comes behind
  for (int item = 0; item < static_cast<int>(program.items.size()); ++item) {
    const Access access = access_of(program.items[item], aliases);
    bool writes = false;
    for (int root : access.writes) {
      if (becomes[root] < 0) continue;
      writes = true;
      for (int reader : readers[becomes[root]]) constraints.edges.emplace_back(reader, item);
    }
    if (writes) {
      if (constraints.barriers.empty() || !waiting.empty())
        constraints.barriers.push_back({.item = item, .before = std::exchange(waiting, {})});
      constraints.barriers.back().after.push_back(item);
    }
    for (int root : access.reads) readers[root].push_back(item);
    if (refuses[item] || std::holds_alternative<loop::ExternCall>(program.items[item]))
      waiting.push_back(item);
  }
  return constraints;
}

std::vector<int64_t> InputWrites::allocated_bytes(const loop::Program& program) const {
  std::vector<int64_t> bytes = schedule::allocated_bytes(program);
  for (const Pair& pair : pairs_) bytes[pair.source] = 0;
  return bytes;
}

}  // namespace braze::schedule
