#include "dispatch/second_backward.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "graph/in_place.h"
#include "trace/replay.h"

namespace braze::dispatch {

using graph::InputKind;

namespace {

// A batch norm that trains reads running statistics for the new ones alone: where nobody asks for
// those, it is one without.
void drop_running_statistics(graph::Graph& graph) {
  for (auto place = graph.nodes().begin(); place != graph.nodes().end();) {
    graph::Node* node = (place++)->get();
    constexpr size_t kOfBatch = 3, kResults = 5;  // the result, mean and inverse deviation
    constexpr int kTrains = 5;
    if (node->op().kind != graph::OpKind::k_native_batch_norm_legit_functional ||
        !std::get<bool>(node->args().at(kTrains)))
      continue;
    const auto is_asked_for = [&](size_t i) {
      return node->results().at(i) && graph.has_uses(node->results()[i]);
    };
    bool keeps_statistics = false;
    for (size_t i = kOfBatch; i < kResults; ++i) keeps_statistics |= is_asked_for(i);
    if (keeps_statistics || node->results()[0] == nullptr) continue;
    std::vector<graph::Argument> args = node->args();
    args.erase(args.begin() + 3, args.begin() + kTrains);
    std::vector<graph::TensorType> types;
    for (size_t i = 0; i < kOfBatch; ++i) types.push_back(node->results()[i]->type());
    const graph::Node* made =
        graph.add_node(graph::op_of(graph::OpKind::k_native_batch_norm_legit_no_stats),
                       std::move(args), std::move(types), node->origin(), node);
    for (size_t i = 0; i < kOfBatch; ++i)
      graph.replace_all_uses(node->results()[i], made->results()[i]);
    graph.erase(node);
  }
}

// Whether gradients flow from the value to one of the inputs.
bool has_history(const graph::Value* value, const std::set<const graph::Value*>& inputs) {
  std::set<const graph::Value*> seen;
  std::vector<const graph::Value*> open = {value};
  while (!open.empty()) {
    const graph::Value* next = open.back();
    open.pop_back();
    if (!seen.insert(next).second) continue;
    if (inputs.contains(next)) return true;
    const graph::Node* node = next->producer();
    if (!node || node->op().kind == graph::OpKind::kdetach) continue;
    if (node->op().name == graph::kWithHistory) {
      open.push_back(node->operands()[1]);
      continue;
    }
    for (const graph::Value* operand : node->operands()) open.push_back(operand);
  }
  return false;
}

// Removes what the outputs do not need. Checks of data have been made when the forward ran, and the
// generator is put back behind the replay: only what is drawn before something that is needed has
// to be drawn.
void keep_what_is_needed(graph::Graph& graph) {
  std::set<const graph::Value*> needed(graph.outputs().begin(), graph.outputs().end());
  bool draws = false;
  for (auto place = graph.nodes().end(); place != graph.nodes().begin();) {
    const auto current = std::prev(place);
    graph::Node& node = **current;
    const graph::Effects& effects = node.op().effects;
    const bool is_needed = effects.opaque || (effects.random && draws) ||
                           std::ranges::any_of(node.results(), [&](const graph::Value* result) {
                             return needed.contains(result);
                           });
    if (!is_needed) {
      graph.erase(&node);
      continue;
    }
    draws |= effects.random;
    for (const graph::Value* operand : node.operands()) needed.insert(operand);
    place = current;
  }
}

// What the backward takes from the forward, and all that it is computed from.
std::set<const graph::Value*> decisive_values(
    const graph::Graph& forward, const std::vector<passes::Partition::BackwardInput>& taken) {
  using Kind = passes::Partition::BackwardInput::Kind;
  std::vector<const graph::Value*> open;
  for (const auto& input : taken) {
    if (input.kind == Kind::kOutput) open.push_back(forward.outputs()[input.index]);
    if (input.kind != Kind::kInput) continue;
    open.push_back(forward.inputs()[input.index].value);
    for (const graph::Mutation& mutation : forward.mutations())
      if (mutation.target == open.back()) open.push_back(mutation.source);
  }
  std::set<const graph::Value*> decisive;
  while (!open.empty()) {
    const graph::Value* value = open.back();
    open.pop_back();
    if (!decisive.insert(value).second || !value->producer()) continue;
    for (const graph::Value* operand : value->producer()->operands()) open.push_back(operand);
  }
  return decisive;
}

// The outputs with a tangent become the graph's; gives the tangents of these.
std::vector<at::Tensor> keep_results_of(graph::Graph& graph,
                                        const std::vector<at::Tensor>& tangents) {
  std::vector<graph::Value*> outputs;
  std::vector<at::Tensor> defined;
  for (size_t i = 0; i < tangents.size(); ++i) {
    if (!tangents[i].defined()) continue;
    outputs.push_back(graph.outputs()[i]);
    defined.push_back(tangents[i]);
  }
  graph.set_outputs(std::move(outputs));
  return defined;
}

}  // namespace

SecondBackward::SecondBackward(passes::Partition cut, graph::Joint joint,
                               std::vector<at::Tensor> constants)
    : forward_(std::move(cut.forward)), joint_(std::move(joint)), constants_(std::move(constants)) {
  const std::set<const graph::Value*> decisive = decisive_values(forward_, cut.backward_inputs);
  std::vector<graph::Value*> outputs;
  for (const int output : joint_.tangent_of) outputs.push_back(forward_.outputs()[output]);
  forward_.set_outputs(std::move(outputs));
  const std::vector<graph::Mutation> mutations = forward_.mutations();
  forward_.set_mutations({});
  const size_t count = forward_.inputs().size();
  const std::vector<int> written = take_what_was_written(mutations);
  keep_what_is_needed(forward_);
  drop_running_statistics(forward_);
  keep_what_is_needed(forward_);
  for (size_t i = 0; i < forward_.inputs().size(); ++i) {
    const graph::Input& input = forward_.inputs()[i];
    const bool is_tensor = input.kind == InputKind::kUser || input.kind == InputKind::kParameter;
    if (!is_tensor || !forward_.has_uses(input.value)) continue;
    places_.push_back(static_cast<int>(i));
    needed_.push_back({i < count ? places_.back() : written[i - count]});
    needed_.back().for_history = i < count && !decisive.contains(input.value);
    needed_.back().before = !needed_.back().for_history &&
                            std::ranges::any_of(mutations, [&](const graph::Mutation& m) {
                              return m.target == input.value;
                            });
  }
}

// What the call has written to an input, without a history, is there when it is over: the vectors
// of a spectral norm. It becomes an input behind all others; gives which input each is written to.
std::vector<int> SecondBackward::take_what_was_written(
    const std::vector<graph::Mutation>& mutations) {
  std::set<const graph::Value*> differentiated;
  for (const int input : joint_.gradient_of) differentiated.insert(forward_.inputs()[input].value);
  std::vector<int> written;
  for (const graph::Mutation& mutation : mutations) {
    if (mutation.source->type() != mutation.target->type()) continue;
    if (differentiated.contains(mutation.target) || has_history(mutation.source, differentiated))
      continue;
    const auto target = std::ranges::find(forward_.inputs(), mutation.target, &graph::Input::value);
    written.push_back(static_cast<int>(target - forward_.inputs().begin()));
    graph::Value* after = forward_.add_input(mutation.source->type(), InputKind::kUser, "");
    forward_.replace_all_uses(mutation.source, after);
  }
  return written;
}

// Aliases of the inputs, in order. Gradients are taken with respect to these: with respect to the
// inputs themselves they would run the inputs' hooks, which are to run when the gradients arrive
// there.
std::vector<at::Tensor> SecondBackward::aliases(const graph::Graph& forward, const Unpack& unpack,
                                                std::span<const double> numbers) const {
  const at::AutoGradMode mode(true);
  std::vector<at::Tensor> given = constants_;
  given.resize(forward_.inputs().size());
  for (size_t i = 0; i < needed_.size(); ++i) {
    if (!forward.has_uses(forward.inputs()[places_[i]].value)) continue;
    const at::Tensor input = unpack(i);
    given[places_[i]] = input.requires_grad() ? input.view_as(input) : input;
  }
  size_t number = 0;
  for (size_t i = 0; i < given.size(); ++i)
    if (forward_.inputs()[i].kind == InputKind::kNumber)
      given[i] = at::scalar_tensor(numbers[number++], at::TensorOptions(at::kDouble));
  return given;
}

// With respect to the inputs `leaves` of `forward`. `tangents`: by output.
std::vector<at::Tensor> SecondBackward::gradients(const graph::Graph& forward,
                                                  const std::vector<at::Tensor>& given,
                                                  const std::vector<int>& leaves,
                                                  const std::vector<at::Tensor>& tangents,
                                                  std::span<const int64_t> symbols,
                                                  const pytorch::GeneratorState* drawn_from) const {
  const bool with_history = at::GradMode::is_enabled();
  const at::AutoGradMode mode(true);
  if (joint_.has_user_functions)
    throw std::runtime_error(
        "gradients of gradients (create_graph=True) go through a torch.autograd.Function in "
        "compiled "
        "code, whose formula is not known to be differentiable there; call the Function in a "
        "function under braze.disable, which leaves it to eager");
  std::vector<at::Tensor> results;
  if (drawn_from) {
    const pytorch::GeneratorState now;
    drawn_from->restore();
    results = trace::replay(forward, given, symbols, /*check=*/false);
    now.restore();
  } else {
    results = trace::replay(forward, given, symbols, /*check=*/false);
  }
  std::vector<at::Tensor> roots, gradients_of_roots, taken;
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].requires_grad()) {
      roots.push_back(results[i]);
      gradients_of_roots.push_back(tangents[i]);
    }
  std::vector<at::Tensor> gradients(leaves.size());
  std::vector<size_t> places;
  for (size_t i = 0; i < leaves.size(); ++i)
    if (const at::Tensor& leaf = given[leaves[i]]; leaf.defined() && leaf.requires_grad()) {
      taken.push_back(leaf);
      places.push_back(i);
    }
  if (roots.empty() || taken.empty()) return gradients;
  std::vector<at::Tensor> found = torch::autograd::grad(
      roots, taken, gradients_of_roots, /*retain_graph=*/true, with_history, /*allow_unused=*/true);
  for (size_t i = 0; i < found.size(); ++i) gradients[places[i]] = std::move(found[i]);
  return gradients;
}

std::vector<at::Tensor> SecondBackward::run(const Unpack& unpack,
                                            const std::vector<at::Tensor>& tangents,
                                            std::span<const int64_t> symbols,
                                            std::span<const double> numbers,
                                            const pytorch::GeneratorState* drawn_from) const {
  const auto is_defined = [](const at::Tensor& tangent) { return tangent.defined(); };
  if (std::ranges::all_of(tangents, is_defined))
    return gradients(forward_, aliases(forward_, unpack, numbers), joint_.gradient_of, tangents,
                     symbols, drawn_from);
  graph::Graph forward = forward_.clone();
  const std::vector<at::Tensor> defined = keep_results_of(forward, tangents);
  keep_what_is_needed(forward);
  return gradients(forward, aliases(forward, unpack, numbers), joint_.gradient_of, defined, symbols,
                   drawn_from);
}

std::vector<at::Tensor> SecondBackward::run_part(const Unpack& unpack,
                                                 const std::vector<at::Tensor>& inner,
                                                 const std::vector<at::Tensor>& tangents,
                                                 std::span<const int64_t> symbols,
                                                 std::span<const double> numbers,
                                                 const pytorch::GeneratorState* drawn_from) const {
  graph::Graph forward = forward_.clone();
  const std::vector<graph::Value*> results(forward.outputs());
  const std::vector<at::Tensor> defined = keep_results_of(forward, tangents);
  const std::vector<graph::Value*> outputs(forward.outputs());
  forward.set_outputs({});  // they stay what they are where inner ones become inputs
  std::vector<graph::Value*> inputs;
  for (const int number : joint_.inner) {
    graph::Value* result = results[number];
    inputs.push_back(forward.add_input(result->type(), InputKind::kUser, ""));
    forward.replace_all_uses(result, inputs.back());
  }
  forward.set_outputs(outputs);
  keep_what_is_needed(forward);
  std::vector<at::Tensor> given = aliases(forward, unpack, numbers);
  std::vector<int> leaves = joint_.gradient_of;
  for (const at::Tensor& result : inner) {
    const at::AutoGradMode mode(true);
    leaves.push_back(static_cast<int>(given.size()));
    given.push_back(result.defined() ? result.view_as(result) : result);
  }
  return gradients(forward, given, leaves, defined, symbols, drawn_from);
}

}  // namespace braze::dispatch
