// Nodes of one graph, copied into another that is being built.
#pragma once

#include <string>
#include <unordered_map>

#include "graph/graph.h"

namespace braze::graph {

class NodeCopier {
 public:
  NodeCopier(const Graph& from, Graph& to) : from_(from), to_(to) {}

  // An input of the new graph that stands for this value, whose storage it has.
  Value* add_input(const Value* value, InputKind kind, std::string name);
  // The same input, with its contents.
  Value* add_input(const Input& input);
  // A copy behind all nodes of the new graph. Its operands must have been copied, or be inputs.
  Node* add(const Node& node);

  bool has(const Value* value) const { return map_.contains(value); }
  Value* at(const Value* value) const { return map_.at(value); }  // what stands for it
  // From here on what stands for it is `copy`, and what stands for its storage the copy's.
  void set(const Value* value, Value* copy) {
    map_[value] = copy;
    storages_[value->storage()] = copy->storage();
  }

 private:
  int storage_of(const Value* value);

  const Graph& from_;
  Graph& to_;
  std::unordered_map<const Value*, Value*> map_;
  std::unordered_map<int, int> storages_;
};

}  // namespace braze::graph
