#include "dispatch/training.h"

#include <algorithm>
#include <map>
#include <set>

#include "dispatch/backward_node.h"
#include "dispatch/dropout_mapping.h"
#include "dispatch/layouts.h"
#include "dispatch/staged_backward.h"
#include "graph/devices.h"
#include "graph/emitter.h"
#include "graph/op_kind.h"
#include "passes/chunked_loss.h"
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

std::vector<int> numbers_of(const std::vector<bool>& chosen, size_t begin, size_t end) {
  std::vector<int> numbers;
  for (size_t i = begin; i < end; ++i)
    if (chosen[i]) numbers.push_back(static_cast<int>(i - begin));
  return numbers;
}

// Which gradients depend on which tangents.
void find_ports(Differentiated& code) {
  const size_t gradients = code.joint.gradient_of.size(), tangents = code.joint.tangent_of.size();
  for (size_t i = 0; i < tangents; ++i) {
    std::vector<int>& inner = code.inner_of.emplace_back();
    if (code.parts)
      inner = numbers_of(code.parts->reached_by(i), gradients, gradients + code.joint.inner.size());
    // A result is none of those that it is computed from.
    std::erase_if(inner,
                  [&](int number) { return code.joint.inner[number] == static_cast<int>(i); });
  }
  std::vector<std::vector<bool>> reached;
  for (size_t i = 0; i < tangents; ++i) reached.push_back(code.whole->reached_by(i));
  std::map<std::vector<bool>, int> ports;  // by whether a tangent reaches it
  for (size_t gradient = 0; gradient < gradients; ++gradient) {
    std::vector<bool> by;
    for (size_t i = 0; i < tangents; ++i) by.push_back(reached[i][gradient]);
    const auto [port, is_new] = ports.try_emplace(by, static_cast<int>(ports.size()));
    if (is_new) code.ports.emplace_back();
    code.ports[port->second].push_back(static_cast<int>(gradient));
  }
  code.reached.resize(tangents);
  bool is_all = true;
  for (const auto& [by, port] : ports)
    for (size_t i = 0; i < tangents; ++i) {
      if (by[i]) code.reached[i].push_back(port);
      is_all &= by[i];
    }
  if (is_all && tangents == code.joint.inner.size() + 1) code.ports.clear();
}

// Adds an output for each input that the second backward needs as it is before the call.
void keep_from_before(Graph& forward, const std::vector<SecondBackward::Needed>& needed) {
  std::vector<Value*> outputs = forward.outputs();
  std::vector<OutputRole> roles = forward.output_roles();
  graph::Emitter emit(forward, forward.nodes().empty() ? nullptr : forward.nodes().front().get());
  for (const SecondBackward::Needed& kept : needed) {
    if (!kept.before) continue;
    outputs.push_back(
        emit(graph::OpKind::kclone, {forward.inputs()[kept.input].value, graph::None{}}));
    roles.push_back({OutputKind::kSaved, {}});
  }
  forward.set_outputs(std::move(outputs), std::move(roles));
}

// `rewritten`: takes losses apart (chunked_loss.h) and turns images (channels_last.h), and says
// whether there was any of that.
passes::Partition cut_functional(const Graph& traced, const Settings& settings,
                                 bool (*functionalise)(Graph&), bool* rewritten = nullptr) {
  Graph functional = traced.clone();
  functionalise(functional);
  if (settings.counter_random && settings.backend != compile::Backend::kEager)
    passes::use_counter_random(functional);
  if (const auto mapping = dropout_mapping_for(settings, functional))
    passes::use_dropout_masks(functional, *mapping);
  passes::eliminate_dead_code(functional);
  passes::PartitionOptions options;
  options.activation_memory = settings.activation_memory;
  if (rewritten && settings.backend != compile::Backend::kEager) {
    const bool turned =
        passes::use_channels_last(functional, channels_last_for(settings, functional));
    options.early = passes::chunk_losses_of_joint(functional);
    *rewritten = turned || !options.early.empty();
  }
  return passes::partition(functional, options);
}

// By tangent, whether the backward reads the result itself.
std::vector<bool> results_in_formulas(const Graph& graph, const graph::Joint& joint) {
  std::set<const graph::Node*> forward;
  std::vector<const Value*> open;
  for (size_t i = 0; i < graph.outputs().size(); ++i)
    if (graph.output_roles()[i].kind == OutputKind::kUser) open.push_back(graph.outputs()[i]);
  while (!open.empty()) {
    const graph::Node* node = open.back()->producer();
    open.pop_back();
    if (!node || !forward.insert(node).second) continue;
    for (const Value* operand : node->operands()) open.push_back(operand);
  }
  std::set<const Value*> read;
  for (const auto& node : graph.nodes())
    if (!forward.contains(node.get()))
      for (const Value* operand : node->operands()) read.insert(operand);
  std::vector<bool> used;
  for (const int output : joint.tangent_of) used.push_back(read.contains(graph.outputs()[output]));
  return used;
}

// What the second backward runs again. `graph`: as traced; `is_cut`: `cut` is of that, and computes
// as autograd is to see it.
SecondBackward::Differentiable differentiable(const Graph& graph, const passes::Partition& cut,
                                              bool is_cut, const graph::Joint& joint,
                                              const std::vector<at::Tensor>& constants,
                                              const Settings& settings) {
  using Kind = passes::Partition::BackwardInput::Kind;
  if (!is_cut)
    return {cut_functional(graph, settings,
                           passes::hides_histories(graph) ? passes::functionalise_with_histories
                                                          : passes::functionalise),
            joint,
            constants,
            {},
            results_in_formulas(graph, joint)};
  std::vector<SecondBackward::Differentiable::Kept> kept;
  size_t number = 0;
  for (size_t i = 0; i < cut.backward_inputs.size(); ++i) {
    if (cut.backward.inputs()[i].kind != graph::InputKind::kSaved) continue;
    const auto& [kind, index] = cut.backward_inputs[i];
    if (kind == Kind::kOutput && cut.forward.output_roles()[index].kind == OutputKind::kSaved)
      kept.push_back({index, number});
    ++number;
  }
  return {{cut.forward.clone(), {}, cut.backward_inputs},
          joint,
          constants,
          std::move(kept),
          results_in_formulas(graph, joint)};
}

}  // namespace

Training::~Training() = default;

std::unique_ptr<Training> Training::make(graph::Graph& graph, const graph::Joint& joint,
                                         const Settings& given,
                                         const std::vector<at::Tensor>& constants,
                                         const std::string& name, const graph::Graph* complete) {
  bool rewritten = false;
  passes::Partition cut = cut_functional(graph, given, passes::functionalise, &rewritten);
  const Settings settings = with_layouts_as_they_are(given);
  std::unique_ptr<Training> training(new Training());
  training->user_outputs_ = static_cast<size_t>(std::ranges::count(
      cut.forward.output_roles(), graph::OutputKind::kUser, &graph::OutputRole::kind));
  for (const auto& node : cut.forward.nodes()) training->draws_ |= node->op().effects.random;
  const std::vector<graph::Device> gpus = graph::accelerators(cut.forward);
  if (!gpus.empty() && gpus[0].type == graph::Device::Type::kCUDA) training->gpu_ = gpus[0].index;
  auto code = std::make_shared<Differentiated>();
  code->joint = joint;
  if (!settings.custom_backend) code->stage_bytes = settings.stage_bytes;
  code->second = std::make_unique<SecondBackward>(
      differentiable(complete ? *complete : graph, cut,
                     /*is_cut=*/!complete && !rewritten && !passes::hides_histories(graph), joint,
                     constants, settings),
      settings, name);
  keep_from_before(cut.forward, code->second->needed());
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
  find_ports(*code);
  training->code_ = std::move(code);
  graph = std::move(cut.forward);
  return training;
}

bool Training::has_history(size_t output) const {
  return std::ranges::find(code_->joint.tangent_of, static_cast<int>(output)) !=
         code_->joint.tangent_of.end();
}

int64_t Training::backward_peak(const std::vector<int64_t>& kept_bytes) const {
  return code_->whole->planned_peak(kept_bytes);
}

std::string Training::backward_cuda_graphs() const {
  std::string text = code_->whole->cuda_graphs();
  if (const StagedBackward* stages = code_->stages_if_cut())
    for (const StagedBackward::Stage& stage : stages->stages()) {
      const std::string graphs = stage.backward->cuda_graphs();
      if (!graphs.empty()) text += (text.empty() ? "" : "; ") + graphs;
    }
  return text;
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
