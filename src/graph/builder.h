// Building a graph whose value numbers are given: for `clone` and the parser.
#pragma once

#include "graph/graph.h"

namespace braze::graph {

class GraphBuilder {
 public:
  explicit GraphBuilder(Graph& graph) : graph_(graph) {}

  // A value with this id, which must be free; defined later by `input` or `node`.
  Value* value(int id, TensorType type, int storage);
  bool has_value(int id) const;
  void input(Value* value, InputKind kind, std::string name);
  Node* node(const Op& op, std::vector<Argument> args, std::vector<Value*> results,
             OriginId origin);

 private:
  Graph& graph_;
};

}  // namespace braze::graph
