#include "dispatch/result_nodes.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <utility>

#include "dispatch/tensors.h"

namespace braze::dispatch {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

// Of a result, where there are ports. Its edges lead to the inner results that it is computed from,
// then to ports.
class ResultNode final : public Node {
 public:
  ~ResultNode() override { release_resources(); }
  std::string name() const override { return "BrazeBackward"; }
  // An override from PyTorch 2.13 on, where a node with weak references, those in `kept`, lives on
  // when it has no others; called then.
  void release_resources() {
    if (is_gone) *is_gone = true;
    pytorch::let_go(next_edges(), std::move(kept));
  }

  std::shared_ptr<Kept> kept;
  int tangent = 0;
  std::shared_ptr<std::atomic<bool>> is_gone;

 protected:
  variable_list apply(variable_list&& given) override {
    Wanted wanted;
    const bool in_parts = add(given[0], wanted);
    if (!in_parts || !given[0].defined()) return variable_list(num_outputs());
    variable_list tangents(kept->code->joint.tangent_of.size());
    tangents[tangent] = std::move(given[0]);
    const variable_list gradients = kept->run_part(getptr(), tangents, unpacked_inner(), wanted);
    variable_list found;
    for (const int number : inner())
      found.push_back(gradients[kept->code->joint.gradient_of.size() + number]);
    for (const int port : kept->code->reached[tangent])
      for (const int gradient : kept->code->ports[port]) found.push_back(gradients[gradient]);
    return found;
  }

 private:
  const std::vector<int>& inner() const { return kept->code->inner_of[tangent]; }

  // Whether the run goes by parts. `wanted`: by what is known by now.
  bool add(const at::Tensor& given, Wanted& wanted) {
    const int run = torch::autograd::get_current_graph_task_id();
    const auto* plan = torch::autograd::get_current_graph_task_exec_info();
    std::lock_guard lock(kept->mutex);
    auto [place, is_first] = kept->pending.try_emplace(run);
    Pending& pending = place->second;
    if (is_first) {
      pending.in_parts = somebody_looks(plan);
      pending.tangents.resize(kept->code->joint.tangent_of.size());
    }
    size_t edge = inner().size();
    for (const int port : kept->code->reached[tangent]) {
      Node& node = *next_edge(edge).function;
      if (runs(plan, node)) pending.ports.insert(port);
      if (plan && !plan->empty()) note_wanted(plan, port, node, pending.wanted);
      edge += kept->code->ports[port].size();
    }
    wanted = pending.wanted;
    kept->note(kept->asked[tangent], tangent);
    if (!pending.in_parts) pending.tangents[tangent] = given;
    return pending.in_parts;
  }

  template <class Plan>
  void note_wanted(const Plan* plan, int port, Node& node, Wanted& wanted) const {
    wanted.resize(kept->code->joint.gradient_of.size());
    const std::vector<int>& gradients = kept->code->ports[port];
    for (size_t i = 0; i < gradients.size(); ++i) {
      const torch::autograd::Edge& edge = node.next_edge(i);
      if (edge.is_valid() && runs(plan, *edge.function)) wanted[gradients[i]] = true;
    }
  }

  template <class Plan>
  static bool runs(const Plan* plan, Node& node) {
    if (!plan || plan->empty()) return true;
    const auto info = plan->find(&node);
    return info != plan->end() && (info->second.needed_ || info->second.captures_);
  }

  // Whether somebody looks at what flows to an inner result: a hook, a gradient that is asked for.
  template <class Plan>
  bool somebody_looks(const Plan* plan) const {
    for (const pytorch::WeakNodePtr& weak : kept->nodes_of_inner) {
      const NodePtr node = weak.lock();
      if (!node) continue;
      if (has_hooks(*node)) return true;
      if (!plan) continue;
      const auto info = plan->find(node.get());
      if (info != plan->end() && info->second.captures_) return true;
    }
    return false;
  }

  // In the places of all inner results those that this one is computed from.
  variable_list unpacked_inner() {
    variable_list tensors(kept->code->joint.inner.size());
    if (!at::GradMode::is_enabled()) return tensors;
    std::lock_guard lock(kept->mutex);
    for (size_t i = 0; i < inner().size(); ++i)
      tensors[inner()[i]] = kept->inner_result(inner()[i], next_edge(i).function);
    return tensors;
  }
};

// Leads to inputs. Made before the nodes of the results, ports run behind them, as the engine
// prefers the node that was made last; a tangent that comes later all the same has a run of its
// own, and flows to no port that has run.
class PortNode final : public Node {
 public:
  std::string name() const override { return "BrazeBackward"; }
  // Called when the node dies, too.
  void release_variables() override {
    if (std::exchange(releases, false)) kept->release();
  }

  std::shared_ptr<Kept> kept;
  int number = 0;
  bool releases = false;  // the run of the engine that it is part of

 protected:
  variable_list apply(variable_list&& given) override {
    releases = !torch::autograd::get_current_graph_task_keep_graph();
    const int run = torch::autograd::get_current_graph_task_id();
    const auto is_defined = [](const at::Tensor& tensor) { return tensor.defined(); };
    variable_list tangents(kept->code->joint.tangent_of.size());
    Wanted wanted;
    {
      std::lock_guard lock(kept->mutex);
      const auto pending = kept->pending.find(run);
      if (pending == kept->pending.end()) return std::move(given);
      pending->second.tangents.swap(tangents);
      wanted = pending->second.wanted;
    }
    variable_list more;
    if (std::ranges::any_of(tangents, is_defined))
      more = kept->run_whole(getptr(), std::move(tangents), wanted);
    std::lock_guard lock(kept->mutex);
    Pending& pending = kept->pending.at(run);
    pending.gradients.resize(std::max(pending.gradients.size(), more.size()));
    for (size_t i = 0; i < more.size(); ++i) {
      at::Tensor& sum = pending.gradients[i];
      if (!sum.defined())
        sum = more[i];
      else if (more[i].defined())
        sum = at::add(sum, more[i]);
    }
    variable_list result = std::move(given);  // by parts, what flows to the inputs
    const std::vector<int>& own = kept->code->ports[number];
    for (size_t i = 0; i < own.size() && !pending.gradients.empty(); ++i)
      result[i] = std::move(pending.gradients[own[i]]);
    pending.ports.erase(number);
    if (pending.ports.empty()) kept->pending.erase(run);
    return result;
  }
};

}  // namespace

void add_results_and_ports(const DifferentiatedCall& call, const std::shared_ptr<Kept>& kept,
                           const torch::autograd::edge_list& to_inputs) {
  const graph::Joint& joint = call.code->joint;
  std::vector<NodePtr> ports;
  for (const std::vector<int>& gradients : call.code->ports) {
    auto port = pytorch::make_node<PortNode>();
    torch::autograd::edge_list edges;
    for (const int gradient : gradients) {
      port->add_input_metadata(borrow(call.inputs[joint.gradient_of[gradient]]));
      edges.push_back(to_inputs[gradient]);
    }
    port->set_next_edges(std::move(edges));
    port->kept = kept;
    port->number = static_cast<int>(ports.size());
    ports.push_back(port);
  }
  for (const int output : joint.tangent_of)
    kept->asked.push_back(
        {c10::weak_intrusive_ptr<c10::TensorImpl>(call.outputs[output].getIntrusivePtr()), false,
         false, std::make_shared<std::atomic<bool>>(false)});
  std::vector<NodePtr> inner(joint.inner.size());
  const auto add_result = [&](int tangent) -> NodePtr {
    auto node = pytorch::make_node<ResultNode>();
    torch::autograd::edge_list edges;
    for (const int number : call.code->inner_of[tangent]) edges.emplace_back(inner[number], 0);
    for (const int port : call.code->reached[tangent])
      for (uint32_t i = 0; i < call.code->ports[port].size(); ++i)
        edges.emplace_back(ports[port], i);
    node->set_next_edges(std::move(edges));
    node->kept = kept;
    node->tangent = tangent;
    at::Tensor& result = call.outputs[joint.tangent_of[tangent]];
    node->is_gone = kept->asked[tangent].is_gone;
    NodePtr made = node;
    set_history(result, made);
    return made;
  };
  // The one that is computed first has no other in front of it.
  for (size_t number = inner.size(); number-- > 0;) inner[number] = add_result(joint.inner[number]);
  for (const NodePtr& node : inner) kept->nodes_of_inner.emplace_back(node);
  for (int tangent = 0; tangent < static_cast<int>(joint.tangent_of.size()); ++tangent)
    if (std::ranges::find(joint.inner, tangent) == joint.inner.end()) add_result(tangent);
}

}  // namespace braze::dispatch
