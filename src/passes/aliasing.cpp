#include "passes/aliasing.h"

#include "graph/op_kind.h"

namespace braze::passes {

using graph::Graph;
using graph::Value;

std::vector<OutputAlias> output_aliases(const Graph& graph) {
  using Kind = OutputAlias::Kind;
  std::vector<OutputAlias> aliases;
  const auto& outputs = graph.outputs();
  auto classify = [&](size_t output) -> OutputAlias {
    const Value* value = outputs[output];
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      if (graph.inputs()[i].value == value) return {Kind::kInput, static_cast<int>(i), value};
    }
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      const Value* input = graph.inputs()[i].value;
      if (input->storage() == value->storage())
        return {Kind::kViewOfInput, static_cast<int>(i), input};
    }
    const Value* root = value;
    while (root->producer()) {
      const int position = root->producer()->op().effects.aliased_argument(root->result_index());
      if (position < 0) break;
      root = std::get<Value*>(root->producer()->args()[position]);
    }
    for (size_t j = 0; j < output; ++j) {
      if (outputs[j] == value) return {Kind::kSame, static_cast<int>(j), root};
    }
    for (size_t j = 0; j < output; ++j) {
      if (outputs[j]->storage() == value->storage())
        return {Kind::kShared, static_cast<int>(j), root};
    }
    return {Kind::kFresh, -1, root};
  };
  for (size_t i = 0; i < outputs.size(); ++i) aliases.push_back(classify(i));
  return aliases;
}

void recompute_storages(Graph& graph) {
  std::vector<bool> taken;
  auto take = [&](int storage) {
    if (storage >= static_cast<int>(taken.size())) taken.resize(storage + 1);
    taken[storage] = true;
  };
  auto is_taken = [&](int storage) {
    return storage < static_cast<int>(taken.size()) && taken[storage];
  };
  for (const graph::Input& input : graph.inputs()) take(input.value->storage());
  for (const auto& node : graph.nodes()) {
    for (Value* result : node->results()) {
      if (!result) continue;
      const int position = node->op().effects.aliased_argument(result->result_index());
      if (position >= 0) {
        bool done = false;
        for_each_value(node->args()[position], [&](const Value* operand) {
          if (!done) result->set_storage(operand->storage());
          done = true;
        });
        if (done) continue;
      }
      if (is_taken(result->storage())) {
        // An op that is not known may return a view that its schema does not tell of.
        bool of_operand = false;
        for (const Value* operand : node->operands())
          of_operand = of_operand || operand->storage() == result->storage();
        if (of_operand && node->op().kind == graph::OpKind::kUnknown) continue;
        result->set_storage(graph.new_storage());
      }
      take(result->storage());
    }
  }
}

Aliasing::Aliasing(const Graph& graph)
    : is_output_(graph.value_count()), is_input_(graph.value_count()) {
  auto of = [&](const Value* value) -> Memory& {
    if (value->storage() >= static_cast<int>(memory_.size())) memory_.resize(value->storage() + 1);
    return memory_[value->storage()];
  };
  for (const graph::Input& input : graph.inputs()) {
    of(input.value).input = true;
    is_input_[input.value->id()] = true;
  }
  for (const Value* output : graph.outputs()) {
    of(output).output = true;
    is_output_[output->id()] = true;
  }
  for (const graph::Mutation& mutation : graph.mutations()) {
    of(mutation.target).mutated = true;
    of(mutation.source).source = true;
  }
}

int Aliasing::find(int storage) const {
  while (storage < static_cast<int>(memory_.size()) && memory_[storage].parent >= 0)
    storage = memory_[storage].parent;
  return storage;
}

bool Aliasing::is_output(const Value* value) const {
  return value->id() < static_cast<int>(is_output_.size()) && is_output_[value->id()];
}

bool Aliasing::replaceable(const Value* from, const Value* to) const {
  // Two outputs are two tensor objects, and an output that is made is not the input's object.
  const bool to_is_input = to->id() < static_cast<int>(is_input_.size()) && is_input_[to->id()];
  if (is_output(from) && (is_output(to) || to_is_input)) return false;
  const int a = find(from->storage()), b = find(to->storage());
  if (a == b) return true;
  auto memory = [&](int storage) {
    return storage < static_cast<int>(memory_.size()) ? memory_[storage] : Memory{};
  };
  const Memory old_memory = memory(a), new_memory = memory(b);
  if (old_memory.output && (new_memory.output || new_memory.input)) return false;
  return !(old_memory.source && new_memory.mutated) && !(old_memory.mutated && new_memory.source);
}

bool Aliasing::reaches_output(const Value* value) const {
  const int storage = find(value->storage());
  return storage < static_cast<int>(memory_.size()) && memory_[storage].output;
}

void Aliasing::replace(Graph& graph, Value* from, Value* to) {
  if (is_output(from)) {
    if (to->id() >= static_cast<int>(is_output_.size())) is_output_.resize(to->id() + 1);
    is_output_[to->id()] = true;
  }
  const int a = find(from->storage()), b = find(to->storage());
  if (a != b) {
    const int largest = std::max(a, b);
    if (largest >= static_cast<int>(memory_.size())) memory_.resize(largest + 1);
    memory_[a].parent = b;
    memory_[b].input |= memory_[a].input;
    memory_[b].output |= memory_[a].output;
    memory_[b].mutated |= memory_[a].mutated;
    memory_[b].source |= memory_[a].source;
  }
  graph.replace_all_uses(from, to);
}

}  // namespace braze::passes
