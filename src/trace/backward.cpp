#include "trace/backward.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/grad_layout_contract.h>
#include <torch/csrc/autograd/variable.h>

#include <set>
#include <utility>

#include "pytorch/nodes.h"
#include "trace/trace_state.h"
#include "trace/walk.h"

namespace braze::trace {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;

std::string why_no_inputs(const BackwardCall& call) {
  for (const at::Tensor& input : call.inputs) {
    if (!input.requires_grad()) return "a gradient of what does not require grad is asked for";
    if (call.accumulates && !input.is_leaf()) return "a gradient is accumulated into no leaf";
  }
  return "";
}

// Whether the history of one of the tensors from outside leads to another: a walk ends at each.
bool leads_on(const std::vector<at::Tensor>& inputs, uint64_t begin) {
  if (inputs.size() < 2) return false;
  std::set<Node*> wanted, known;
  std::vector<Node*> open;
  torch::autograd::edge_list edges;  // nobody else may hold the node of a leaf
  for (const at::Tensor& input : inputs) {
    edges.push_back(torch::autograd::impl::gradient_edge(input));
    Node* node = edges.back().function.get();
    wanted.insert(node);
    if (node->sequence_nr() < begin) open.push_back(node);
  }
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    for (const Edge& edge : node->next_edges()) {
      if (!edge.is_valid()) continue;
      if (wanted.contains(edge.function.get())) return true;
      if (known.insert(edge.function.get()).second) open.push_back(edge.function.get());
    }
  }
  return false;
}

}  // namespace

std::string run_backward(TraceState& state, const BackwardCall& call, uint64_t begin,
                         BackwardResult& result) {
  if (state.control_flow.is_used()) return "a branch or a loop on data in grad mode";
  if (torch::autograd::AnomalyMode::is_enabled()) return "anomaly mode is on";
  if (std::string why = why_no_inputs(call); !why.empty()) return why;
  if (leads_on(call.inputs, begin))
    return "gradients of a tensor from outside and of what it was computed from";
  torch::autograd::edge_list roots;
  for (const at::Tensor& root : call.roots) {
    if (!root.requires_grad()) return "a tensor that does not require grad is differentiated";
    roots.push_back(torch::autograd::impl::gradient_edge(root));
  }
  Walk walk(state, begin);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Edge edge = torch::autograd::impl::gradient_edge(call.inputs[i]);
    if (edge.function->sequence_nr() == UINT64_MAX || edge.function->sequence_nr() < begin)
      walk.ends_at(edge, static_cast<int>(i));
    else
      walk.passes(edge, static_cast<int>(i));
  }
  if (call.inputs.empty())
    walk.wants_all_leaves();
  else
    walk.drops_leaves();
  if (!call.keeps_graph) walk.uses_up();
  walk.is_in_code();
  if (std::string why = walk.prepare(roots); !why.empty()) return why;
  result.leaves = call.inputs.empty() ? walk.leaves() : call.inputs;
  for (const at::Tensor& leaf : result.leaves)
    if (pytorch::has_hooks(*leaf.unsafeGetTensorImpl())) return "a hook on a leaf";
  std::vector<at::Tensor> tangents = call.tangents;
  torch::autograd::validate_outputs(roots, tangents,
                                    [](const std::string& message) { return message; });
  {
    const at::AutoGradMode mode(call.creates_graph);
    walk.run(roots, tangents);
  }
  tangents.clear();
  state.backward_of(std::nullopt);
  std::map<int, at::Tensor> gradients = walk.take_gradients();
  for (size_t i = 0; i < result.leaves.size(); ++i)
    result.gradients.push_back(std::move(gradients[static_cast<int>(i)]));
  return "";
}

at::Tensor accumulated(const at::Tensor& leaf, const at::Tensor& before, at::Tensor gradient,
                       bool creates_graph) {
  namespace utils = torch::autograd::utils;
  const at::AutoGradMode mode(creates_graph);
  if (!before.defined()) {
    const bool is_own = gradient.use_count() == 1 && !creates_graph;
    if (is_own && utils::obeys_layout_contract(gradient, leaf)) return gradient.detach();
    return utils::clone_obey_contract(creates_graph ? gradient : gradient.detach(), leaf);
  }
  if (creates_graph) return at::add(before, gradient);
  at::Tensor written = before;
  return written.add_(gradient);
}

}  // namespace braze::trace
