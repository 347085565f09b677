#include "dispatch/second_backward.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "graph/in_place.h"
#include "graph/op_kind.h"
#include "pytorch/nodes.h"
#include "trace/replay.h"

namespace braze::dispatch {

using graph::InputKind;
using torch::autograd::Edge;

namespace {

// How many sets of tangents are remembered. From half as many on all gradients are taken, whatever
// is wanted.
constexpr size_t kMostParts = 8;

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

// As eager would: by PyTorch's operators, with autograd on. `given`: by input.
std::vector<at::Tensor> run_forward(const GradientFunctions::Forward& forward,
                                    const std::vector<at::Tensor>& given,
                                    const SecondBackward::Call& call) {
  if (!call.drawn_from) return trace::replay(forward.graph, given, call.symbols, /*check=*/false);
  const pytorch::GeneratorState now(call.drawn_from->gpu());
  call.drawn_from->restore();
  std::vector<at::Tensor> results =
      trace::replay(forward.graph, given, call.symbols, /*check=*/false);
  now.restore();
  return results;
}

// Gradients are taken with respect to aliases of the inputs: with respect to the inputs themselves
// they would run the inputs' hooks, which are to run when the gradients arrive there.
// The engine takes it that the chain of nodes behind one is shorter than its own, also where what
// comes of the aliases leads to `results`.
std::vector<at::Tensor> aliases(const GradientFunctions::Forward& forward,
                                const std::vector<at::Tensor>& inputs,
                                std::span<const double> numbers, std::span<const Edge> results) {
  uint64_t longest = 0;
  for (const Edge& edge : results)
    if (edge.is_valid()) longest = std::max(longest, edge.function->topological_nr());
  const auto alias = [&](at::Tensor tensor) {
    do tensor = tensor.view_as(tensor);
    while (tensor.grad_fn()->topological_nr() < longest);
    return tensor;
  };
  const at::AutoGradMode mode(true);
  std::vector<at::Tensor> given = forward.constants;
  given.resize(inputs.size());
  size_t number = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (forward.graph.inputs()[i].kind == InputKind::kNumber)
      given[i] = at::scalar_tensor(numbers[number++], at::TensorOptions(at::kDouble));
    else if (inputs[i].defined())
      given[i] = inputs[i].requires_grad() ? alias(inputs[i]) : inputs[i];
  }
  return given;
}

// What flows to a result of the forward flows to the user's. `edges`: by result.
void lead_to_users(const GradientFunctions::Forward& forward, std::vector<at::Tensor>& gradients,
                   const std::vector<at::Tensor>& outputs, std::span<const Edge> edges,
                   uint64_t begin, const SecondBackward::Call& call) {
  std::vector<Edge> own;
  for (const auto& [output, number] : forward.results) {
    const at::Tensor& tensor = outputs[output];
    own.push_back(tensor.requires_grad() ? torch::autograd::impl::gradient_edge(tensor) : Edge());
  }
  const auto found = pytorch::edges_to(own, gradients, begin);
  for (size_t i = 0; i < own.size(); ++i) {
    if (!edges[i].is_valid()) continue;
    // With eager's check of its version.
    const at::Tensor kept =
        found[i].empty() ? at::Tensor() : call.unpack_result(forward.results[i].number);
    for (Edge* edge : found[i]) *edge = edges[i];
  }
}

// By PyTorch's operators. `tangents`: of the first outputs; `edges`: of the user's results.
std::vector<at::Tensor> gradients(const GradientFunctions::Forward& forward,
                                  const std::vector<at::Tensor>& given,
                                  const std::vector<at::Tensor>& tangents,
                                  std::span<const Edge> edges, const SecondBackward::Call& call) {
  const bool with_history = at::GradMode::is_enabled();
  const at::AutoGradMode mode(true);
  const uint64_t begin = at::sequence_number::peek();
  const std::vector<at::Tensor> results = run_forward(forward, given, call);
  std::vector<at::Tensor> roots, gradients_of_roots, taken;
  for (size_t i = 0; i < tangents.size(); ++i)
    if (results[i].requires_grad()) {
      roots.push_back(results[i]);
      gradients_of_roots.push_back(tangents[i]);
    }
  std::vector<at::Tensor> gradients(forward.leaves.size());
  std::vector<size_t> places;
  for (size_t i = 0; i < forward.leaves.size(); ++i)
    if (const at::Tensor& leaf = given[forward.leaves[i]]; leaf.defined() && leaf.requires_grad()) {
      taken.push_back(leaf);
      places.push_back(i);
    }
  if (roots.empty() || taken.empty()) return gradients;
  std::vector<at::Tensor> found = torch::autograd::grad(
      roots, taken, gradients_of_roots, /*retain_graph=*/true, with_history, /*allow_unused=*/true);
  if (with_history) lead_to_users(forward, found, results, edges, begin, call);
  for (size_t i = 0; i < found.size(); ++i) gradients[places[i]] = std::move(found[i]);
  return gradients;
}

std::map<int, graph::Value*> results_by_id(const graph::Graph& graph) {
  std::map<int, graph::Value*> results;
  for (const auto& node : graph.nodes())
    for (graph::Value* result : node->results())
      if (result) results[result->id()] = result;
  return results;
}

// Those that are there still. `ids`: of the values, which may be gone.
std::vector<GradientFunctions::Forward::Kept> remaining(
    const graph::Graph& graph, const std::vector<std::pair<int, size_t>>& ids) {
  const std::map<int, graph::Value*> results = results_by_id(graph);
  std::vector<GradientFunctions::Forward::Kept> kept;
  for (const auto& [id, number] : ids)
    if (const auto found = results.find(id); found != results.end())
      kept.push_back({found->second, number});
  return kept;
}

}  // namespace

SecondBackward::SecondBackward(Differentiable forward, const Settings& settings, std::string name)
    : forward_(std::move(forward.cut.forward)),
      joint_(std::move(forward.joint)),
      constants_(std::move(forward.constants)),
      uses_result_(std::move(forward.uses_result)),
      settings_(settings),
      name_(std::move(name)) {
  const std::set<const graph::Value*> decisive =
      decisive_values(forward_, forward.cut.backward_inputs);
  std::vector<graph::Value*> outputs;
  for (const int output : joint_.tangent_of) outputs.push_back(forward_.outputs()[output]);
  // What is kept is followed through what changes here.
  for (const Differentiable::Kept& kept : forward.kept)
    outputs.push_back(forward_.outputs()[kept.output]);
  forward_.set_outputs(std::move(outputs));
  const std::vector<graph::Mutation> mutations = forward_.mutations();
  forward_.set_mutations({});
  const size_t count = forward_.inputs().size();
  const std::vector<int> written = take_what_was_written(mutations);
  keep_what_is_needed(forward_);
  drop_running_statistics(forward_);
  outputs = forward_.outputs();
  std::vector<std::pair<int, size_t>> kept;
  for (size_t i = 0; i < forward.kept.size(); ++i)
    kept.emplace_back(outputs[joint_.tangent_of.size() + i]->id(), forward.kept[i].number);
  outputs.resize(joint_.tangent_of.size());
  forward_.set_outputs(std::move(outputs));
  keep_what_is_needed(forward_);
  kept_ = remaining(forward_, kept);
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

std::shared_ptr<SecondBackward::Part> SecondBackward::make_part(Part::Key key) const {
  GradientFunctions::Forward part{forward_.clone(), {}, constants_, {}, {}};
  for (size_t i = 0; i < joint_.gradient_of.size(); ++i)
    if (key.wanted.empty() || key.wanted[i]) part.leaves.push_back(joint_.gradient_of[i]);
  graph::Graph& graph = part.graph;
  const std::vector<graph::Value*> results(graph.outputs());
  std::vector<int> ids;
  for (const graph::Value* result : results) ids.push_back(result->id());
  std::vector<graph::Value*> outputs;
  for (size_t i = 0; i < key.asked.size(); ++i)
    if (key.asked[i]) outputs.push_back(results[i]);
  if (key.has_inner) {
    graph.set_outputs({});  // they stay what they are where inner ones become inputs
    for (const int number : joint_.inner) {
      part.leaves.push_back(static_cast<int>(graph.inputs().size()));
      graph::Value* input = graph.add_input(results[number]->type(), InputKind::kUser, "");
      graph.replace_all_uses(results[number], input);
    }
  }
  graph.set_outputs(std::move(outputs));
  keep_what_is_needed(graph);
  std::vector<std::pair<int, size_t>> kept;
  for (const auto& [value, number] : kept_) kept.emplace_back(value->id(), number);
  part.kept = remaining(graph, kept);
  outputs = graph.outputs();
  const std::map<int, graph::Value*> there = results_by_id(graph);
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto result = there.find(ids[i]);
    if (result == there.end()) continue;
    auto place = std::ranges::find(outputs, result->second);
    if (place == outputs.end()) place = outputs.insert(place, result->second);
    part.results.push_back({static_cast<int>(place - outputs.begin()), i});
  }
  graph.set_outputs(std::move(outputs));
  auto made = std::make_shared<Part>();
  made->key = std::move(key);
  made->functions = std::make_unique<GradientFunctions>(std::move(part), settings_, name_);
  return made;
}

std::shared_ptr<SecondBackward::Part> SecondBackward::part_for(
    const std::vector<at::Tensor>& tangents, bool has_inner, const Wanted& wanted) {
  Part::Key key{has_inner, {}, {}};
  if (std::ranges::find(wanted, false) != wanted.end()) key.wanted = wanted;
  for (const at::Tensor& tangent : tangents) key.asked.push_back(tangent.defined());
  const auto find = [&]() -> std::shared_ptr<Part> {
    for (const auto& part : parts_)
      if (part->key == key) return part;
    return nullptr;
  };
  {
    std::lock_guard lock(mutex_);
    if (std::shared_ptr<Part> known = find()) return known;
    if (parts_.size() >= kMostParts / 2) key.wanted.clear();
    if (std::shared_ptr<Part> known = find()) return known;
  }
  std::shared_ptr<Part> made = make_part(key);
  std::lock_guard lock(mutex_);
  if (std::shared_ptr<Part> known = find()) return known;  // of another thread
  if (parts_.size() < kMostParts) parts_.push_back(made);
  return made;
}

std::vector<at::Tensor> SecondBackward::run(const Call& call, const Part& part,
                                            const std::vector<at::Tensor>& inner,
                                            const std::vector<at::Tensor>& tangents) const {
  const GradientFunctions::Forward& forward = part.functions->forward();
  std::vector<at::Tensor> inputs(forward.graph.inputs().size()), asked;
  for (size_t i = 0; i < needed_.size(); ++i)
    if (forward.graph.has_uses(forward.graph.inputs()[places_[i]].value))
      inputs[places_[i]] = call.unpack(i);
  std::ranges::copy(inner, inputs.end() - static_cast<std::ptrdiff_t>(inner.size()));
  std::ranges::copy_if(tangents, std::back_inserter(asked),
                       [](const at::Tensor& tangent) { return tangent.defined(); });
  if (joint_.has_user_functions)
    throw std::runtime_error(
        "gradients of gradients (create_graph=True) go through a torch.autograd.Function in "
        "compiled "
        "code, whose formula is not known to be differentiable there; call the Function in a "
        "function under braze.disable, which leaves it to eager");
  std::optional<std::vector<at::Tensor>> found =
      part.functions->run({inputs, asked, call.symbols, call.numbers, call.unpack_kept,
                           call.drawn_from, call.unpack_result});
  if (!found) {
    std::vector<Edge> edges;
    for (const auto& result : forward.results) edges.push_back(call.edge_of_result(result.number));
    found = gradients(forward, aliases(forward, inputs, call.numbers, edges), asked, edges, call);
  }
  const Wanted& wanted = part.key.wanted;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (!wanted[i]) found->insert(found->begin() + static_cast<std::ptrdiff_t>(i), at::Tensor());
  return std::move(*found);
}

std::vector<at::Tensor> SecondBackward::run(const Call& call,
                                            const std::vector<at::Tensor>& tangents,
                                            const Wanted& wanted) {
  return run(call, *part_for(tangents, /*has_inner=*/false, wanted), {}, tangents);
}

std::vector<at::Tensor> SecondBackward::run_part(const Call& call,
                                                 const std::vector<at::Tensor>& inner,
                                                 const std::vector<at::Tensor>& tangents,
                                                 const Wanted& wanted) {
  return run(call, *part_for(tangents, /*has_inner=*/true, wanted), inner, tangents);
}

}  // namespace braze::dispatch
