#include "graph/builder.h"

#include <algorithm>

namespace braze::graph {

Value* GraphBuilder::value(int id, TensorType type, int storage) {
  BRAZE_CHECK(!has_value(id), "two values with number ", id);
  if (id >= graph_.value_count()) graph_.values_.resize(id + 1);
  graph_.values_[id] = std::make_unique<Value>();
  Value* value = graph_.values_[id].get();
  value->id_ = id;
  value->type_ = std::move(type);
  value->storage_ = storage < 0 ? graph_.new_storage() : storage;
  graph_.next_storage_ = std::max(graph_.next_storage_, value->storage_ + 1);
  return value;
}

bool GraphBuilder::has_value(int id) const {
  return id < graph_.value_count() && graph_.values_[id];
}

void GraphBuilder::input(Value* value, InputKind kind, std::string name) {
  graph_.inputs_.push_back({value, kind, std::move(name)});
}

Node* GraphBuilder::node(const Op& op, std::vector<Argument> args, std::vector<Value*> results,
                         OriginId origin) {
  auto place = graph_.nodes_.insert(graph_.nodes_.end(), std::make_unique<Node>());
  Node* node = place->get();
  node->op_ = &op;
  node->args_ = std::move(args);
  node->results_ = std::move(results);
  node->origin_ = origin;
  node->place_ = place;
  for (const Argument& argument : node->args_)
    for_each_value(argument, [&](Value* value) { value->users_.push_back(node); });
  for (size_t i = 0; i < node->results_.size(); ++i) {
    Value* result = node->results_[i];
    if (!result) continue;
    result->producer_ = node;
    result->result_index_ = static_cast<int>(i);
  }
  return node;
}

}  // namespace braze::graph
