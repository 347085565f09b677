#include "trace/walk.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <typeinfo>

#include "trace/gradients.h"
#include "trace/trace_state.h"

namespace braze::trace {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;

at::Tensor sum_of(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined()) return b;
  return b.defined() ? at::add(a, b) : a;
}

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  return as_fake(a)->value->type() == as_fake(b)->value->type();
}

// Of a class for the user's Functions, in Python or C++; Braze's own has a gradient itself.
bool is_users(const Node& node) {
  const std::string_view name = typeid(node).name();
  const bool is_own = name.find("5braze") != name.npos;
  return name.find("PyNode") != name.npos || (name.find("CppNode") != name.npos && !is_own);
}

}  // namespace

std::string Walk::prepare(const std::vector<Edge>& roots) {
  std::vector<Node*> open;
  for (size_t i = 0; i < roots.size(); ++i) {
    roots_.emplace(place_of(roots[i]), static_cast<int>(i));
    if (is_inside(roots[i])) meet(roots[i], open);
  }
  while (!open.empty() && why_.empty()) {
    Node* node = open.back();
    open.pop_back();
    for (const Edge& edge : node->next_edges()) {
      if (!is_inside(edge)) continue;
      meet(edge, open);
      if (const auto root = roots_.find(place_of(edge)); root != roots_.end())
        inner_roots_.insert(root->second);
    }
  }
  if (why_.empty()) find_wanted();
  return why_;
}

// Whether the node may be walked.
void Walk::meet(const Edge& edge, std::vector<Node*>& open) {
  Node* node = edge.function.get();
  constexpr uint64_t kOfLeaves = UINT64_MAX;  // the number of nodes that accumulate
  if (node->sequence_nr() == kOfLeaves && meet_leaf(edge)) return;
  auto [state, is_new] = nodes_.try_emplace(node);
  if (!is_new) return;
  if (node->sequence_nr() < begin_)
    why_ = "the history of a tensor from outside that is no input";
  else if (!node->pre_hooks().empty() || !node->tensor_pre_hooks().empty() ||
           !node->post_hooks().empty() || !node->retains_grad_hooks().empty())
    why_ = "a hook on a tensor that the traced code makes";
  state->second.inputs.resize(node->num_inputs());
  open.push_back(node);
}

bool Walk::meet_leaf(const Edge& edge) {
  auto* node = dynamic_cast<AccumulateGrad*>(edge.function.get());
  if (!node) return false;
  const at::Tensor& leaf = node->variable;
  if (of_leaves_ == OfLeaves::kWanted) {
    ends_at(edge, static_cast<int>(leaves_.size()));
    leaves_.push_back(leaf);
  } else if (as_fake(leaf) || of_leaves_ == OfLeaves::kDropped) {
    ends_at(edge, kDropped);
  } else {
    why_ = "a leaf that requires grad is reached without being used";
  }
  return true;
}

bool Walk::is_wanted(const Edge& edge) const {
  if (!edge.is_valid()) return false;
  const Place place = place_of(edge);
  if (const auto end = ends_.find(place); end != ends_.end()) return end->second != kDropped;
  // What flows to an output that others are computed from is to be seen there.
  if (!in_code_ && roots_.contains(place)) return true;
  return passed_.contains(place) || nodes_.at(edge.function.get()).is_wanted;
}

// A node is called if something that is wanted lies behind it.
void Walk::find_wanted() {
  std::vector<Node*> in_order;
  for (auto& [node, state] : nodes_) in_order.push_back(node);
  std::ranges::sort(in_order, {}, [](Node* node) { return node->sequence_nr(); });
  for (bool changed = true; changed;) {
    changed = false;
    for (Node* node : in_order) {
      State& state = nodes_.at(node);
      if (state.is_wanted) continue;
      state.is_wanted = std::ranges::any_of(node->next_edges(),
                                            [&](const Edge& edge) { return is_wanted(edge); });
      changed |= state.is_wanted;
    }
  }
  for (Node* node : in_order) {
    if (!nodes_.at(node).is_wanted) continue;
    for (const Edge& edge : node->next_edges())
      if (is_inside(edge)) ++nodes_.at(edge.function.get()).expected;
  }
}

void Walk::run(const std::vector<Edge>& roots, const std::vector<at::Tensor>& tangents) {
  for (size_t i = 0; i < roots.size(); ++i)
    if (inner_roots_.contains(static_cast<int>(i)))
      waiting_[roots[i].function.get()].push_back({static_cast<int>(i), {}, tangents[i]});
    else
      deliver(roots[i], tangents[i]);
  edges_of_roots_ = roots;
  for (auto& [node, state] : nodes_)
    if (state.expected == 0) make_ready(node);
  while (!ready_.empty()) {
    Node* node = ready_.rbegin()->second;
    ready_.erase(std::prev(ready_.end()));
    call(*node);
  }
}

void Walk::deliver(const Edge& edge, const at::Tensor& gradient) {
  if (!edge.is_valid()) return;
  if (const auto end = ends_.find(place_of(edge)); end != ends_.end()) {
    if (end->second == kDropped) return;
    at::Tensor& sum = gradients_[end->second];
    sum = sum_of(sum, gradient);
    return;
  }
  at::Tensor& input = nodes_.at(edge.function.get()).inputs.at(edge.input_nr);
  input = sum_of(input, gradient);
}

// The tangent comes last, so that what flows in without it is known.
void Walk::add_tangents(Node& node, State& state) {
  const auto waiting = waiting_.find(&node);
  if (waiting == waiting_.end()) return;
  for (Inner& inner : waiting->second) {
    at::Tensor& input = state.inputs.at(edges_of_roots_[inner.root].input_nr);
    const at::Tensor tangent = inner.total;
    if (in_code_) {  // in any layout, as the engine adds them up
      input = sum_of(tangent, input);
      continue;
    }
    inner.flow = std::exchange(input, sum_of(input, tangent));
    if (!inner.flow.defined()) continue;
    if (!same_layout(input, tangent)) input = at::empty_like(tangent).copy_(input);
    inner.total = input;
    inner_.push_back(std::move(inner));
  }
}

void Walk::call(Node& node) {
  State& state = nodes_.at(&node);
  add_tangents(node, state);
  for (auto place = passed_.lower_bound({&node, 0}); place != passed_.end(); ++place) {
    if (place->first.first != &node) break;
    gradients_[place->second] = state.inputs.at(place->first.second);
  }
  if (!state.is_wanted) return;
  state_.backward_of(node.sequence_nr(), in_code_);
  std::optional<variable_list> known = gradient_without_data(node, state.inputs);
  variable_list results = known ? std::move(*known) : node(std::move(state.inputs));
  if (uses_up_) {
    node.release_variables();
    state_.note_used_up(node);
  }
  const edge_list& edges = node.next_edges();
  torch::autograd::validate_outputs(edges, results, [&](const std::string& message) {
    return "Function " + node.name() + " returned an " + message;
  });
  for (size_t i = 0; i < edges.size(); ++i) {
    deliver(edges[i], results[i]);
    results[i].reset();
    if (!is_inside(edges[i])) continue;
    if (--nodes_.at(edges[i].function.get()).expected == 0) make_ready(edges[i].function.get());
  }
}

bool Walk::has_user_functions() const {
  return std::ranges::any_of(nodes_, [](const auto& known) { return is_users(*known.first); });
}

bool Walk::meets_used_up() const {
  return std::ranges::any_of(nodes_, [&](const auto& known) {
    return known.second.is_wanted && state_.is_used_up(*known.first);
  });
}

}  // namespace braze::trace
