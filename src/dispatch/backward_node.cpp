#include "dispatch/backward_node.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "dispatch/kept.h"
#include "dispatch/result_nodes.h"
#include "dispatch/stage_nodes.h"
#include "dispatch/staged_backward.h"
#include "dispatch/tensors.h"

namespace braze::dispatch {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using BackwardInput = Backward::BackwardInput;

class BackwardNode final : public Node {
 public:
  ~BackwardNode() override { release_resources(); }
  std::string name() const override { return "BrazeBackward"; }

  // An override from PyTorch 2.13 on, where a node with weak references, those in `kept`, lives on
  // when it has no others; called then.
  void release_resources() { pytorch::let_go(next_edges(), std::move(kept)); }
  // Only the last node releases: those in front of it leave their tangents to it.
  void release_variables() override {
    if (is_last()) kept->release(kept->stages ? std::optional<size_t>(0) : std::nullopt);
  }

  std::shared_ptr<Kept> kept;
  size_t number = 0;          // in the chain
  std::vector<int> tangents;  // the ones that this node takes

 protected:
  variable_list apply(variable_list&& given) override {
    if (kept->code->joint.inner.empty()) {
      if (std::ranges::none_of(given, [](const at::Tensor& t) { return t.defined(); }))
        return variable_list(num_outputs());
      note(given);
      return run_whole(std::move(given));
    }
    const int run = torch::autograd::get_current_graph_task_id();
    note(given);
    Pending pending = add(run, std::move(given));
    if (pending.in_parts) return run_part(pending.tangents);
    variable_list gradients(num_outputs());
    if (!is_last()) return gradients;
    return run_whole(std::move(pending.tangents));
  }

 private:
  size_t later() const { return kept->code->joint.inner.size() - number; }
  bool is_last() const { return later() == 0; }

  void note(const variable_list& given) {
    if (number > 0) return;
    std::lock_guard lock(kept->mutex);
    for (size_t i = 0; i < kept->asked.size(); ++i)
      if (given[i].defined()) kept->note(kept->asked[i], tangents[i]);
  }

  // Adds what this node was given to the tangents of the run and returns them; the last node takes
  // them away.
  Pending add(int run, variable_list given) {
    std::lock_guard lock(kept->mutex);
    auto [place, is_first] = kept->pending.try_emplace(run);
    Pending& pending = place->second;
    if (is_first) {
      pending.in_parts = somebody_looks();
      pending.tangents.resize(kept->code->joint.tangent_of.size());
    }
    if (pending.in_parts) std::ranges::fill(pending.tangents, at::Tensor());
    for (size_t i = 0; i < tangents.size(); ++i)
      pending.tangents[tangents[i]] = std::move(given[i]);
    if (!is_last()) return pending;
    Pending all = std::move(pending);
    kept->pending.erase(place);
    return all;
  }

  // Whether somebody looks at what flows to a later node (a hook, a gradient that is asked for), or
  // the run does not reach that node.
  bool somebody_looks() const {
    const auto* plan = torch::autograd::get_current_graph_task_exec_info();
    for (size_t i = 0; i < later(); ++i) {
      Node& node = *next_edge(i).function;
      if (has_hooks(node)) return true;
      if (!plan || plan->empty()) continue;
      const auto info = plan->find(&node);
      if (info == plan->end() || !info->second.needed_ || info->second.captures_) return true;
    }
    return false;
  }

  Wanted wanted() const {
    const auto* plan = torch::autograd::get_current_graph_task_exec_info();
    Wanted wanted;
    if (!plan || plan->empty()) return wanted;
    for (size_t i = 0; i < kept->code->joint.gradient_of.size(); ++i)
      wanted.push_back(task_should_compute_output(later() + i));
    return wanted;
  }

  // The gradients of inputs, and behind them what the first stage hands on.
  variable_list run_whole(variable_list all) {
    if (!kept->runs_in_stages(all)) {
      variable_list gradients = kept->run_whole(getptr(), std::move(all), wanted());
      gradients.resize(num_outputs());
      return gradients;
    }
    variable_list given = kept->run_stage(getptr(), 0, std::move(all));
    variable_list found(num_outputs());
    const std::vector<int>& gradients = kept->stages->stages()[0].gradients;
    for (size_t i = 0; i < gradients.size(); ++i) found[gradients[i]] = std::move(given[i]);
    std::move(given.begin() + gradients.size(), given.end(),
              found.begin() + kept->code->joint.gradient_of.size());
    return found;
  }

  variable_list run_part(const variable_list& given) {
    variable_list found(num_outputs());
    if (std::ranges::none_of(given, [](const at::Tensor& t) { return t.defined(); })) return found;
    variable_list gradients = kept->run_part(getptr(), given, unpacked_inner(given), wanted());
    // The gradients of inputs come first, then those of all inner results; among the edges of a
    // node those to later nodes come first.
    const size_t of_inputs = kept->code->joint.gradient_of.size();
    for (size_t i = 0; i < later(); ++i) found[i] = std::move(gradients[of_inputs + number + i]);
    std::move(gradients.begin(), gradients.begin() + of_inputs, found.begin() + later());
    return found;
  }

  // The inner results of later nodes, in their places; this node's results depend on no others.
  variable_list unpacked_inner(const variable_list& given) {
    if (!at::GradMode::is_enabled() && !are_batched(given)) return {};
    std::lock_guard lock(kept->mutex);
    variable_list tensors(number);
    for (size_t i = 0; i < later(); ++i)
      tensors.push_back(kept->inner_result(number + i, next_edge(i).function));
    return tensors;
  }
};

// A kept tensor may be a result as well, whose history would then hold itself.
at::Tensor without_history(const at::Tensor& tensor) {
  return tensor.requires_grad() ? without_base(tensor) : tensor;
}

void keep_results(const DifferentiatedCall& call, Kept& kept) {
  const graph::Joint& joint = call.code->joint;
  for (size_t tangent = 0; tangent < joint.tangent_of.size(); ++tangent) {
    const at::Tensor& output = call.outputs[joint.tangent_of[tangent]];
    const torch::autograd::Edge edge = torch::autograd::impl::gradient_edge(output);
    Kept::Result result{pytorch::WeakNodePtr(edge.function), edge.input_nr, {}};
    if (call.code->second->uses_result(tangent) ||
        std::ranges::find(joint.inner, static_cast<int>(tangent)) != joint.inner.end())
      result.saved.emplace(output, /*is_output=*/true);
    kept.results.push_back(std::move(result));
  }
}

}  // namespace

Differentiated::Differentiated() = default;
Differentiated::~Differentiated() = default;

const StagedBackward* Differentiated::stages() {
  std::lock_guard lock(mutex_);
  if (stage_bytes > 0 && !std::exchange(is_cut_, true)) {
    auto staged = std::make_unique<StagedBackward>(*whole, joint, stage_bytes);
    if (!staged->stages().empty()) stages_ = std::move(staged);
  }
  return stages_.get();
}

const StagedBackward* Differentiated::stages_if_cut() {
  std::lock_guard lock(mutex_);
  return stages_.get();
}

void give_history(const DifferentiatedCall& call) {
  const graph::Joint& joint = call.code->joint;
  auto kept = std::make_shared<Kept>();
  torch::autograd::edge_list to_inputs;
  to_inputs.reserve(joint.gradient_of.size() + joint.inner.size());
  for (const int input : joint.gradient_of)
    to_inputs.push_back(torch::autograd::impl::gradient_edge(borrow(call.inputs[input])));
  const bool has_inner = !joint.inner.empty();
  const size_t user_outputs = call.outputs.size();
  const auto has_history = [&](size_t output) {
    return std::ranges::find(joint.tangent_of, static_cast<int>(output)) != joint.tangent_of.end();
  };
  kept->code = call.code;
  // On a GPU the nodes of results and ports could run in different threads of the engine.
  const auto is_on_cpu = [](const at::Tensor& result) {
    return !result.defined() || result.is_cpu();
  };
  const bool has_ports = !call.code->ports.empty() && std::ranges::all_of(call.outputs, is_on_cpu);
  if (has_ports) add_results_and_ports(call, kept, to_inputs);
  if (!has_ports && is_awaited(to_inputs)) kept->stages = call.code->stages();
  torch::autograd::edge_list with_stages;
  if (kept->stages) with_stages = add_stages(call, kept, to_inputs);
  // The last node first, as those in front of it lead to it.
  std::vector<NodePtr> nodes(has_ports ? 0 : joint.inner.size() + 1);
  for (size_t number = nodes.size(); number-- > 0;) {
    auto node = pytorch::make_node<BackwardNode>();
    torch::autograd::edge_list edges;
    for (size_t later = number + 1; later < nodes.size(); ++later)
      edges.emplace_back(nodes[later], 0);
    const bool leads_to_stages = kept->stages && number + 1 == nodes.size();
    const auto& behind = leads_to_stages ? with_stages : to_inputs;
    edges.insert(edges.end(), behind.begin(), behind.end());
    node->set_next_edges(std::move(edges));
    node->kept = kept;
    node->number = number;
    nodes[number] = node;
    if (number > 0) {
      node->tangents = {joint.inner[number - 1]};
    } else {
      for (int i = 0; i < static_cast<int>(joint.tangent_of.size()); ++i)
        if (std::ranges::find(joint.inner, i) == joint.inner.end()) node->tangents.push_back(i);
    }
    for (const int tangent : node->tangents)
      set_history(call.outputs[joint.tangent_of[tangent]], nodes[number]);
    if (number > 0 || node->tangents.size() == 1) continue;
    for (const int tangent : node->tangents)
      kept->asked.push_back({c10::weak_intrusive_ptr<c10::TensorImpl>(
          call.outputs[joint.tangent_of[tangent]].getIntrusivePtr())});
  }
  kept->symbols.assign(call.symbols.begin(), call.symbols.end());
  kept->numbers.assign(call.numbers.begin(), call.numbers.end());
  kept->drawn_from = call.drawn_from;
  kept->saved.reserve(call.code->whole->kept().size());
  for (const BackwardInput& input : call.code->whole->kept()) {
    const auto index = static_cast<size_t>(input.index);
    if (input.kind == BackwardInput::Kind::kInput)
      kept->saved.emplace_back(borrow(call.inputs[index]), /*is_output=*/false);
    else if (index >= user_outputs)
      kept->saved.emplace_back(without_history(call.kept[index - user_outputs]),
                               /*is_output=*/false);
    else if (has_history(index) && (has_inner || has_ports))  // any node may take it
      kept->saved.emplace_back(without_base(call.outputs[index]), /*is_output=*/false);
    else
      kept->saved.emplace_back(call.outputs[index], /*is_output=*/has_history(index));
  }
  kept->inputs.reserve(call.code->second->needed().size());
  size_t copies =
      std::ranges::count_if(call.code->second->needed(), &SecondBackward::Needed::before);
  for (const SecondBackward::Needed& needed : call.code->second->needed()) {
    at::Tensor input = borrow(call.inputs[needed.input]);
    if (needed.before)
      input = pytorch::with_history(call.kept[call.kept.size() - copies--], input);
    else if (needed.for_history)
      input = pytorch::with_history(input.variable_data(), input);
    kept->inputs.emplace_back(input, /*is_output=*/false);
  }
  keep_results(call, *kept);
}

}  // namespace braze::dispatch
