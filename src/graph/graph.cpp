#include "graph/graph.h"

#include <algorithm>
#include <unordered_map>

#include "graph/builder.h"

namespace braze::graph {
namespace {

void replace_in(Argument& argument, Value* from, Value* to) {
  if (auto* value = std::get_if<Value*>(&argument)) {
    if (*value == from) *value = to;
  } else if (auto* list = std::get_if<std::vector<Value*>>(&argument)) {
    std::replace(list->begin(), list->end(), from, to);
  } else if (auto* optional = std::get_if<OptionalRefs<Value*>>(&argument)) {
    for (std::optional<Value*>& value : optional->refs) {
      if (value == from) value = to;
    }
  }
}

void remove_use(std::vector<Node*>& users, Node* user) {
  auto found = std::find(users.begin(), users.end(), user);
  BRAZE_CHECK(found != users.end(), "uses of a value are out of step");
  users.erase(found);
}

}  // namespace

std::vector<Value*> Node::operands() const {
  std::vector<Value*> all;
  for (const Argument& argument : args_)
    for_each_value(argument, [&](Value* value) { all.push_back(value); });
  return all;
}

std::vector<int> Node::mutated_arguments() const {
  std::vector<int> positions;
  if (op_->effects.mutates.empty()) return positions;
  if (op_->has(kRunningStatistics) && args_.size() > 5 && args_[5] == Argument(false))
    return positions;
  for (int position : op_->effects.mutates) {
    if (position < static_cast<int>(args_.size()) && !std::holds_alternative<None>(args_[position]))
      positions.push_back(position);
  }
  return positions;
}

void Node::set_arg(int i, Argument argument) {
  Argument& place = args_.at(i);
  for_each_value(place, [&](Value* value) { remove_use(value->users_, this); });
  place = std::move(argument);
  for_each_value(place, [&](Value* value) { value->users_.push_back(this); });
}

void Node::replace_operand(Value* from, Value* to) {
  if (from == to) return;
  for (Argument& argument : args_) {
    int count = 0;
    for_each_value(argument, [&](Value* value) { count += value == from; });
    if (count == 0) continue;
    replace_in(argument, from, to);
    for (int i = 0; i < count; ++i) {
      remove_use(from->users_, this);
      to->users_.push_back(this);
    }
  }
}

Graph::Graph() = default;
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

Value* Graph::new_value(TensorType type, int storage) {
  values_.push_back(std::make_unique<Value>());
  Value* value = values_.back().get();
  value->id_ = value_count() - 1;
  value->type_ = std::move(type);
  value->storage_ = storage < 0 ? new_storage() : storage;
  next_storage_ = std::max(next_storage_, value->storage_ + 1);
  return value;
}

Value* Graph::add_input(TensorType type, InputKind kind, std::string name, int storage) {
  Value* value = new_value(std::move(type), storage);
  inputs_.push_back({value, kind, std::move(name)});
  return value;
}

Node* Graph::add_node(const Op& op, std::vector<Argument> args,
                      std::vector<TensorType> result_types, OriginId origin, Node* before,
                      std::vector<int> storages) {
  auto place = nodes_.insert(before ? before->place_ : nodes_.end(), std::make_unique<Node>());
  Node* node = place->get();
  node->op_ = &op;
  node->args_ = std::move(args);
  node->origin_ = origin;
  node->place_ = place;
  for (const Argument& argument : node->args_)
    for_each_value(argument, [&](Value* value) { value->users_.push_back(node); });
  for (size_t i = 0; i < result_types.size(); ++i) {
    Value* value = new_value(std::move(result_types[i]), i < storages.size() ? storages[i] : -1);
    value->producer_ = node;
    value->result_index_ = static_cast<int>(i);
    node->results_.push_back(value);
  }
  return node;
}

void Graph::set_result_undefined(Node* node, int i) {
  Value*& result = node->results_.at(i);
  if (!result) return;
  BRAZE_CHECK(!has_uses(result), "result ", i, " of ", node->op().name, " is used");
  values_[result->id_].reset();
  result = nullptr;
}

void Graph::set_input_contents(const Value* input, std::shared_ptr<const std::string> contents) {
  for (Input& own : inputs_)
    if (own.value == input) own.contents = std::move(contents);
}

void Graph::move_inputs_to_end(InputKind kind) {
  std::stable_partition(inputs_.begin(), inputs_.end(),
                        [&](const Input& input) { return input.kind != kind; });
}

void Graph::set_outputs(std::vector<Value*> outputs, std::vector<OutputRole> roles) {
  BRAZE_CHECK(roles.size() <= outputs.size(), "roles of outputs that there are not");
  roles.resize(outputs.size());
  outputs_ = std::move(outputs);
  output_roles_ = std::move(roles);
}

void Graph::set_mutations(std::vector<Mutation> mutations) { mutations_ = std::move(mutations); }

void Graph::set_symbols(std::shared_ptr<sym::ExprArena> arena, std::vector<SymbolBinding> symbols) {
  arena_ = symbols.empty() ? nullptr : std::move(arena);
  symbols_ = std::move(symbols);
  conditions_.clear();
}

void Graph::set_conditions(std::vector<sym::Condition> conditions) {
  conditions_ = std::move(conditions);
}

void Graph::replace_all_uses(Value* from, Value* to) {
  if (from == to) return;
  for (Node* user : from->users_) {
    for (Argument& argument : user->args_) replace_in(argument, from, to);
    to->users_.push_back(user);
  }
  from->users_.clear();
  std::replace(outputs_.begin(), outputs_.end(), from, to);
  for (Mutation& mutation : mutations_) {
    if (mutation.source == from) mutation.source = to;
  }
}

bool Graph::has_uses(const Value* value) const {
  if (!value->users_.empty()) return true;
  if (std::find(outputs_.begin(), outputs_.end(), value) != outputs_.end()) return true;
  return std::any_of(mutations_.begin(), mutations_.end(), [&](const Mutation& mutation) {
    return mutation.source == value || mutation.target == value;
  });
}

void Graph::erase(Node* node) {
  for (const Value* result : node->results_)
    BRAZE_CHECK(!result || !has_uses(result), "%", result->id_, " of ", node->op().name,
                " is used");
  for (const Argument& argument : node->args_)
    for_each_value(argument, [&](Value* value) { remove_use(value->users_, node); });
  for (const Value* result : node->results_) {
    if (result) values_[result->id_].reset();
  }
  nodes_.erase(node->place_);
}

OriginId Graph::add_origin(Origin origin) {
  const auto hash_of = [](const Origin& of) {
    const std::hash<std::string> hash;
    return hash(of.module_path.str()) ^ (hash(of.call.str()) << 1) ^ static_cast<size_t>(of.line);
  };
  // A clone's index is empty.
  for (size_t i = origin_index_.size(); i < origins_.size(); ++i)
    origin_index_.emplace(hash_of(origins_[i]), static_cast<OriginId>(i));
  const size_t hash = hash_of(origin);
  const auto [begin, end] = origin_index_.equal_range(hash);
  for (auto known = begin; known != end; ++known)
    if (origins_[known->second] == origin) return known->second;
  const auto id = static_cast<OriginId>(origins_.size());
  origins_.push_back(std::move(origin));
  origin_index_.emplace(hash, id);
  return id;
}

bool Graph::owns(const Value* value) const {
  // Compared by address first: `value` may be one that was erased.
  return std::any_of(values_.begin(), values_.end(),
                     [&](const std::unique_ptr<Value>& own) { return own.get() == value; });
}

Graph Graph::clone() const {
  Graph copy;
  GraphBuilder builder(copy);
  std::vector<Value*> map(values_.size());
  auto mapped = [&](const Value* value) { return map[value->id_]; };
  auto add_value = [&](const Value* value) {
    return map[value->id_] = builder.value(value->id_, value->type_, value->storage_);
  };
  copy.origins_ = origins_;
  for (const Input& input : inputs_) {
    builder.input(add_value(input.value), input.kind, input.name);
    copy.inputs_.back().contents = input.contents;
    copy.inputs_.back().reshapes = input.reshapes;
  }
  for (const auto& node : nodes_) {
    std::vector<Argument> args = node->args_;
    for (Argument& argument : args) {
      if (auto* value = std::get_if<Value*>(&argument)) {
        *value = mapped(*value);
      } else if (auto* list = std::get_if<std::vector<Value*>>(&argument)) {
        for (Value*& value : *list) value = mapped(value);
      } else if (auto* optional = std::get_if<OptionalRefs<Value*>>(&argument)) {
        for (std::optional<Value*>& value : optional->refs) {
          if (value) value = mapped(*value);
        }
      }
    }
    std::vector<Value*> results;
    for (const Value* result : node->results_)
      results.push_back(result ? add_value(result) : nullptr);
    builder.node(*node->op_, std::move(args), std::move(results), node->origin_);
  }
  for (const Value* output : outputs_) copy.outputs_.push_back(mapped(output));
  copy.output_roles_ = output_roles_;
  for (const Mutation& mutation : mutations_)
    copy.mutations_.push_back({mapped(mutation.target), mapped(mutation.source)});
  copy.arena_ = arena_;
  for (SymbolBinding binding : symbols_) {
    if (binding.input) binding.input = mapped(binding.input);
    copy.symbols_.push_back(binding);
  }
  copy.conditions_ = conditions_;
  copy.values_.resize(values_.size());
  copy.next_storage_ = next_storage_;
  return copy;
}

}  // namespace braze::graph
