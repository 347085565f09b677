// Making nodes with inferred types, in front of a node.
#pragma once

#include "graph/graph.h"

namespace braze::graph {

class Emitter {
 public:
  // New nodes stand before `before` (null: at the end) and have its origin.
  Emitter(Graph& graph, Node* before);

  // The op must have a rule in infer/. Results of views share their argument's storage.
  Node* node(OpKind kind, std::vector<Argument> args);
  Value* operator()(OpKind kind, std::vector<Argument> args) {
    return node(kind, std::move(args))->result();
  }

  // One result of a given type; `storage` < 0: fresh.
  Value* raw(const Op& op, std::vector<Argument> args, TensorType type, int storage = -1);

  // Shorthand; `b` is a tensor or a number, for which the overload with a number is taken.
  Value* add(Value* a, Argument b);  // a + b
  Value* sub(Value* a, Argument b);
  Value* mul(Value* a, Argument b);
  Value* div(Value* a, Argument b);
  Value* unary(OpKind kind, Value* a) { return (*this)(kind, {a}); }
  Value* where(Value* condition, Value* a, Value* b);
  Value* permute(Value* a, std::vector<int64_t> order);
  Value* expand(Value* a, sym::Dims sizes);
  // `a` itself where it has these sizes already.
  Value* reshape(Value* a, sym::Dims sizes);          // a view, of a contiguous copy where needed
  Value* cast(Value* a, DType dtype);                 // `a` itself where it has the dtype
  Value* cast(Value* a, DType dtype, Device device);  // `a` itself where it has both
  Value* contiguous(Value* a);                        // `a` itself where it is contiguous
  // Filled with a number: the dtype, device and sizes of `type`, contiguous.
  Value* full(const TensorType& type, Argument value);

  Graph& graph() const { return graph_; }
  Node* before() const { return before_; }

 private:
  Graph& graph_;
  Node* before_;
  OriginId origin_;
};

}  // namespace braze::graph
