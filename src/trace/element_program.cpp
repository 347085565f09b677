#include "trace/element_program.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "graph/emitter.h"
#include "graph/node_copier.h"
#include "graph/op_kind.h"
#include "trace/fake_tensor.h"

namespace braze::trace {
namespace {

using graph::Argument;
using graph::Graph;
using graph::TensorType;
using graph::Value;
using sym::Int;
using ValueSet = std::unordered_set<const Value*>;

bool is_known(const TensorType& type) {
  const auto known = [](Int size) { return size.is_constant(); };
  return std::ranges::all_of(type.sizes, known) && std::ranges::all_of(type.strides, known);
}

bool is_known(const Argument& argument) {
  if (const auto* number = std::get_if<Int>(&argument)) return number->is_constant();
  if (const auto* list = std::get_if<std::vector<Int>>(&argument))
    return std::ranges::all_of(*list, [](Int number) { return number.is_constant(); });
  return true;
}

bool is_known(const graph::Node& node) {
  for (const Value* result : node.results())
    if (result && !is_known(result->type())) return false;
  return std::ranges::all_of(node.args(),
                             [](const Argument& argument) { return is_known(argument); });
}

// Nodes behind `given` that `outputs` need, in order.
std::vector<const graph::Node*> nodes_between(const Graph& graph, const ValueSet& given,
                                              const std::vector<Value*>& outputs) {
  ValueSet varying = given, needed(outputs.begin(), outputs.end());
  std::vector<const graph::Node*> found;
  for (const auto& node : graph.nodes()) {
    const std::vector<Value*> operands = node->operands();
    const bool varies =
        std::ranges::any_of(operands, [&](const Value* value) { return varying.contains(value); });
    // A number that the function makes (`torch.full((), -inf)`).
    const bool is_made = operands.empty() && node->op().op_class == graph::OpClass::kFactory &&
                         node->results().size() == 1 && node->result()->type().rank() == 0;
    if (!varies && !is_made) continue;
    found.push_back(node.get());
    for (const Value* result : node->results())
      if (result && varies) varying.insert(result);
  }
  std::vector<const graph::Node*> kept;
  for (auto node = found.rbegin(); node != found.rend(); ++node) {
    const auto is_needed = [&](const Value* value) {
      return value && needed.contains(value) && !given.contains(value);
    };
    if (std::ranges::none_of((*node)->results(), is_needed)) continue;
    kept.push_back(*node);
    for (const Value* operand : (*node)->operands()) needed.insert(operand);
  }
  std::ranges::reverse(kept);
  return kept;
}

// The indices along dimension `dim` of `scores`, which broadcast.
Value* position(Graph& program, const TensorType& scores, int dim) {
  graph::Emitter emit(program, nullptr);
  Value* indices = emit(graph::OpKind::karange_start_step,
                        {Int(0), scores.sizes[dim], Int(1), graph::DType::kInt64, graph::None{},
                         scores.device, graph::None{}});
  std::vector<Int> sizes(scores.sizes.size(), Int(1));
  sizes[dim] = scores.sizes[dim];
  return emit(graph::OpKind::kview, {indices, std::move(sizes)});
}

std::vector<Value*> values_of(const std::vector<at::Tensor>& tensors) {
  std::vector<Value*> values;
  for (const at::Tensor& tensor : tensors) {
    const FakeTensorImpl* fake = as_fake(tensor);
    BRAZE_CHECK(fake && fake->value, "numbers are computed");
    values.push_back(fake->value);
  }
  return values;
}

}  // namespace

std::optional<ElementProgram> element_program(const std::vector<at::Tensor>& numbers,
                                              const std::vector<at::Tensor>& positions,
                                              const std::vector<at::Tensor>& outputs) {
  TraceState& state = *current_state();
  const std::vector<Value*> given = values_of(numbers), places = values_of(positions);
  const std::vector<Value*> results = values_of(outputs);
  ValueSet known(given.begin(), given.end());
  known.insert(places.begin(), places.end());
  const std::vector<const graph::Node*> nodes = nodes_between(state.graph(), known, results);
  for (const Value* value : given)
    if (!is_known(value->type())) return std::nullopt;
  if (!std::ranges::all_of(nodes, [](const graph::Node* node) { return is_known(*node); }))
    return std::nullopt;
  Graph program;
  graph::NodeCopier copier(state.graph(), program);
  for (const Value* value : given) copier.add_input(value, graph::InputKind::kUser, "");
  state.stands_for_program(given.at(0));
  ElementProgram made;
  ValueSet computed = known;
  for (const graph::Node* node : nodes)
    for (const Value* result : node->results()) computed.insert(result);
  const auto add_table = [&](Value* value) {
    if (computed.contains(value)) return true;
    if (!is_known(value->type())) return false;
    computed.insert(value);
    copier.add_input(value, graph::InputKind::kUser, "");
    made.tables.push_back(state.another_fake(value));
    return true;
  };
  for (const graph::Node* node : nodes)
    for (Value* operand : node->operands())
      if (!add_table(operand)) return std::nullopt;
  for (Value* result : results)
    if (!add_table(result)) return std::nullopt;
  for (size_t dim = 0; dim < places.size(); ++dim)
    copier.set(places[dim], position(program, given.at(0)->type(), static_cast<int>(dim)));
  for (const graph::Node* node : nodes) {
    // The program has a gradient itself.
    const bool is_same =
        node->op().kind == graph::OpKind::kdetach || node->op().kind == graph::OpKind::kalias;
    if (is_same)
      copier.set(node->result(), copier.at(node->operands().at(0)));
    else
      copier.add(*node);
  }
  std::vector<Value*> copies;
  for (const Value* result : results) copies.push_back(copier.at(result));
  program.set_outputs(std::move(copies));
  made.text = graph::to_string(program, /*with_origins=*/false);
  return made;
}

}  // namespace braze::trace
