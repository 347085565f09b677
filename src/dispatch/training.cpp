#include "dispatch/training.h"

#include <algorithm>

#include "dispatch/backward_node.h"
#include "passes/counter_random.h"
#include "passes/dce.h"
#include "passes/functionalise.h"
#include "passes/partition.h"

namespace braze::dispatch {
namespace {

using graph::Graph;
using graph::OutputKind;
using graph::OutputRole;
using graph::Value;

void set_gradients(Graph& graph, std::vector<Value*> gradients) {
  std::vector<OutputRole> roles(gradients.size(), {OutputKind::kGradient, {}});
  graph.set_outputs(std::move(gradients), std::move(roles));
  passes::eliminate_dead_code(graph);
}

// The backward without the outputs that stand behind the gradients for inner results.
Graph whole(const Graph& backward, const graph::Joint& joint) {
  Graph graph = backward.clone();
  const std::vector<Value*> outputs(graph.outputs());
  set_gradients(graph, {outputs.begin(), outputs.begin() + joint.gradient_of.size()});
  return graph;
}

// Views of `from` become views of `to`.
void replace(Graph& graph, Value* from, Value* to) {
  for (const auto& node : graph.nodes())
    for (Value* result : node->results())
      if (result && result != from && result->storage() == from->storage())
        result->set_storage(to->storage());
  graph.replace_all_uses(from, to);
}

// Each tangent of an inner result is all that flows to it; what flows to it from other results is
// an output.
Graph parts(const Graph& backward, const graph::Joint& joint) {
  Graph graph = backward.clone();
  std::vector<Value*> tangents;
  for (const graph::Input& input : graph.inputs())
    if (input.kind == graph::InputKind::kTangent) tangents.push_back(input.value);
  std::vector<Value*> totals;
  const size_t gradients = joint.gradient_of.size();
  for (size_t i = 0; i < joint.inner.size(); ++i)
    totals.push_back(graph.outputs()[gradients + 2 * i + 1]);
  std::vector<Value*> outputs(graph.outputs().begin(), graph.outputs().begin() + gradients);
  for (size_t i = 0; i < joint.inner.size(); ++i)
    outputs.push_back(graph.outputs()[gradients + 2 * i]);
  std::vector<OutputRole> roles(outputs.size(), {OutputKind::kGradient, {}});
  graph.set_outputs(std::move(outputs), std::move(roles));
  for (size_t i = 0; i < totals.size(); ++i) replace(graph, totals[i], tangents[joint.inner[i]]);
  passes::eliminate_dead_code(graph);
  return graph;
}

}  // namespace

Training::~Training() = default;

std::unique_ptr<Training> Training::make(graph::Graph& graph, const graph::Joint& joint,
                                         const Settings& settings,
                                         const std::vector<at::Tensor>& constants,
                                         const std::string& name) {
  graph::Graph functional = graph.clone();
  passes::functionalise(functional);
  if (settings.counter_random && settings.backend != compile::Backend::kEager)
    passes::use_counter_random(functional);
  passes::eliminate_dead_code(functional);
  passes::Partition cut = passes::partition(functional);
  std::unique_ptr<Training> training(new Training());
  training->user_outputs_ = static_cast<size_t>(std::ranges::count(
      cut.forward.output_roles(), graph::OutputKind::kUser, &graph::OutputRole::kind));
  for (const auto& node : cut.forward.nodes()) training->draws_ |= node->op().effects.random;
  auto code = std::make_shared<Differentiated>();
  code->joint = joint;
  code->second = std::make_unique<SecondBackward>(cut.forward.clone(), joint, constants);
  // By input of the forward: which float of the call it is.
  std::vector<int> number_of_input;
  int numbers = 0;
  for (const graph::Input& input : cut.forward.inputs())
    number_of_input.push_back(input.kind == graph::InputKind::kNumber ? numbers++ : -1);
  for (size_t i = 0; i < cut.backward_inputs.size(); ++i)
    if (cut.backward.inputs()[i].kind == graph::InputKind::kNumber)
      cut.backward_inputs[i].index = number_of_input[cut.backward_inputs[i].index];
  if (!joint.inner.empty()) {
    code->parts = std::make_unique<Backward>(parts(cut.backward, joint), cut.backward_inputs,
                                             settings, constants, name);
    cut.backward = whole(cut.backward, joint);
  }
  code->whole = std::make_unique<Backward>(std::move(cut.backward), std::move(cut.backward_inputs),
                                           settings, constants, name);
  training->code_ = std::move(code);
  graph = std::move(cut.forward);
  return training;
}

bool Training::has_history(size_t output) const {
  return std::ranges::find(code_->joint.tangent_of, static_cast<int>(output)) !=
         code_->joint.tangent_of.end();
}

std::vector<at::Tensor> Training::take_kept(std::vector<at::Tensor>& outputs) const {
  std::vector<at::Tensor> kept(std::make_move_iterator(outputs.begin() + user_outputs_),
                               std::make_move_iterator(outputs.end()));
  outputs.resize(user_outputs_);
  return kept;
}

void Training::give_history(c10::TensorImpl* const* inputs, std::vector<at::Tensor>& outputs,
                            std::vector<at::Tensor> kept, std::span<const int64_t> symbols,
                            std::span<const double> numbers,
                            std::shared_ptr<const pytorch::GeneratorState> drawn_from) const {
  dispatch::give_history({code_, inputs, outputs, kept, symbols, numbers, std::move(drawn_from)});
}

}  // namespace braze::dispatch
