#include "graph/node_copier.h"

namespace braze::graph {

int NodeCopier::storage_of(const Value* value) {
  auto [place, fresh] = storages_.try_emplace(value->storage(), -1);
  if (fresh) place->second = to_.new_storage();
  return place->second;
}

Value* NodeCopier::add_input(const Value* value, InputKind kind, std::string name) {
  return map_[value] = to_.add_input(value->type(), kind, std::move(name), storage_of(value));
}

Value* NodeCopier::add_input(const Input& input) {
  Value* copy = add_input(input.value, input.kind, input.name);
  to_.set_input_contents(copy, input.contents);
  return copy;
}

Node* NodeCopier::add(const Node& node) {
  std::vector<Argument> args = node.args();
  for (Argument& argument : args) {
    if (auto* value = std::get_if<Value*>(&argument)) {
      *value = map_.at(*value);
    } else if (auto* list = std::get_if<std::vector<Value*>>(&argument)) {
      for (Value*& value : *list) value = map_.at(value);
    } else if (auto* optional = std::get_if<OptionalRefs<Value*>>(&argument)) {
      for (std::optional<Value*>& value : optional->refs)
        if (value) value = map_.at(*value);
    }
  }
  std::vector<TensorType> types;
  std::vector<int> storages;
  for (const Value* result : node.results()) {
    types.push_back(result ? result->type() : TensorType{});
    storages.push_back(result ? storage_of(result) : -1);
  }
  const Origin* origin = from_.origin(node.origin());
  Node* made = to_.add_node(node.op(), std::move(args), std::move(types),
                            origin ? to_.add_origin(*origin) : -1, nullptr, std::move(storages));
  for (size_t i = 0; i < node.results().size(); ++i) {
    if (node.results()[i])
      map_[node.results()[i]] = made->result(static_cast<int>(i));
    else
      to_.set_result_undefined(made, static_cast<int>(i));
  }
  return made;
}

}  // namespace braze::graph
