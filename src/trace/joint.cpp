#include "trace/joint.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include "trace/gradients.h"
#include "trace/trace_state.h"

namespace braze::trace {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;
using Place = std::pair<const Node*, uint32_t>;  // an input of an autograd node

at::Tensor sum_of(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined()) return b;
  return b.defined() ? at::add(a, b) : a;
}

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  return as_fake(a)->value->type() == as_fake(b)->value->type();
}

// Of a class for the user's Functions, in Python or C++.
bool is_users(const Node& node) {
  const std::string_view name = typeid(node).name();
  return name.find("PyNode") != name.npos || name.find("CppNode") != name.npos;
}

class Walk {
 public:
  // An output that other outputs are computed from.
  struct Inner {
    int root = 0;
    at::Tensor flow, total;
  };

  Walk(TraceState& state, uint64_t begin) : state_(state), begin_(begin) {}

  // The gradient that arrives at this edge belongs to input number `input`.
  void ends_at(const Edge& edge, int input) { ends_[{edge.function.get(), edge.input_nr}] = input; }

  // What cannot be; empty if the walk can be made.
  std::string prepare(const std::vector<Edge>& roots) {
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
        if (meet(edge, open)) ++nodes_[edge.function.get()].expected;
        if (const auto root = roots_.find(place_of(edge)); root != roots_.end())
          inner_roots_.insert(root->second);
      }
    }
    return why_;
  }

  void run(const std::vector<Edge>& roots, const std::vector<at::Tensor>& tangents) {
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

  const std::map<int, at::Tensor>& gradients() const { return gradients_; }
  bool has_user_functions() const {
    return std::ranges::any_of(nodes_, [](const auto& known) { return is_users(*known.first); });
  }
  // In the order of the walk.
  const std::vector<Inner>& inner() const { return inner_; }

 private:
  struct State {
    int expected = 0;  // edges that lead here and have not brought anything yet
    variable_list inputs;
  };

  static Place place_of(const Edge& edge) { return {edge.function.get(), edge.input_nr}; }
  bool is_end(const Edge& edge) const { return ends_.contains(place_of(edge)); }
  bool is_inside(const Edge& edge) const { return edge.is_valid() && !is_end(edge); }

  // Whether the node may be walked.
  bool meet(const Edge& edge, std::vector<Node*>& open) {
    Node* node = edge.function.get();
    auto [state, is_new] = nodes_.try_emplace(node);
    if (!is_new) return true;
    constexpr uint64_t kOfLeaves = UINT64_MAX;  // the number of nodes that accumulate
    if (node->sequence_nr() == kOfLeaves)
      why_ =
          "a leaf that requires grad is made in the traced code, or is reached without being used";
    else if (node->sequence_nr() < begin_)
      why_ = "the history of a tensor from outside that is no input";
    else if (!node->pre_hooks().empty() || !node->tensor_pre_hooks().empty() ||
             !node->post_hooks().empty() || !node->retains_grad_hooks().empty())
      why_ = "a hook on a tensor that the traced code makes";
    state->second.inputs.resize(node->num_inputs());
    open.push_back(node);
    return true;
  }

  void deliver(const Edge& edge, const at::Tensor& gradient) {
    if (!edge.is_valid()) return;
    if (const auto end = ends_.find({edge.function.get(), edge.input_nr}); end != ends_.end()) {
      at::Tensor& sum = gradients_[end->second];
      sum = sum_of(sum, gradient);
      return;
    }
    at::Tensor& input = nodes_.at(edge.function.get()).inputs.at(edge.input_nr);
    input = sum_of(input, gradient);
  }

  void make_ready(Node* node) { ready_.emplace(node->sequence_nr(), node); }

  // The tangent comes last, so that what flows in without it is known.
  void add_tangents(Node& node, State& state) {
    const auto waiting = waiting_.find(&node);
    if (waiting == waiting_.end()) return;
    for (Inner& inner : waiting->second) {
      at::Tensor& input = state.inputs.at(edges_of_roots_[inner.root].input_nr);
      const at::Tensor tangent = inner.total;
      inner.flow = std::exchange(input, sum_of(input, tangent));
      if (!inner.flow.defined()) continue;
      if (!same_layout(input, tangent)) input = at::empty_like(tangent).copy_(input);
      inner.total = input;
      inner_.push_back(std::move(inner));
    }
  }

  void call(Node& node) {
    state_.backward_of(node.sequence_nr());
    State& state = nodes_.at(&node);
    add_tangents(node, state);
    std::optional<variable_list> known = gradient_without_data(node, state.inputs);
    variable_list results = known ? std::move(*known) : node(std::move(state.inputs));
    const edge_list& edges = node.next_edges();
    torch::autograd::validate_outputs(edges, results, [&](const std::string& message) {
      return "Function " + node.name() + " returned an " + message;
    });
    for (size_t i = 0; i < edges.size(); ++i) {
      deliver(edges[i], results[i]);
      if (!is_inside(edges[i])) continue;
      if (--nodes_.at(edges[i].function.get()).expected == 0) make_ready(edges[i].function.get());
    }
  }

  TraceState& state_;
  const uint64_t begin_;
  std::map<Place, int> ends_;
  std::unordered_map<Node*, State> nodes_;
  std::map<Place, int> roots_;
  std::set<int> inner_roots_;
  std::vector<Edge> edges_of_roots_;
  std::unordered_map<Node*, std::vector<Inner>> waiting_;  // until their node is called
  std::vector<Inner> inner_;
  std::multimap<uint64_t, Node*> ready_;
  std::map<int, at::Tensor> gradients_;
  std::string why_;
};

// Gradients flow from an output that is made by the traced code and shares its memory with nothing
// that the user holds: else a write through one of the two would have to reach the history of the
// other.
std::string why_no_history(const std::vector<at::Tensor>& outputs, size_t number,
                           const graph::Graph& graph) {
  const int storage = as_fake(outputs[number])->value->storage();
  for (const graph::Input& input : graph.inputs())
    if (input.value->storage() == storage)
      return "a result that requires grad shares memory with a tensor from outside";
  for (size_t i = 0; i < outputs.size(); ++i)
    if (const FakeTensorImpl* other = as_fake(outputs[i]);
        i != number && other && other->value && other->value->storage() == storage)
      return "a result that requires grad shares memory with another result";
  return "";
}

}  // namespace

std::string differentiate(TraceState& state, const std::vector<at::Tensor>& outputs, uint64_t begin,
                          std::vector<at::Tensor>& gradients, graph::Joint& joint) {
  if (state.control_flow.is_used()) return "a branch or a loop on data in grad mode";
  if (torch::autograd::AnomalyMode::is_enabled()) return "anomaly mode is on";
  std::vector<Edge> roots;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!as_fake(outputs[i]) || !outputs[i].requires_grad()) continue;
    if (std::string why = why_no_history(outputs, i, state.graph()); !why.empty()) return why;
    joint.tangent_of.push_back(static_cast<int>(i));
    roots.push_back(torch::autograd::impl::gradient_edge(outputs[i]));
  }
  if (roots.empty()) return "";
  Walk walk(state, begin);
  for (size_t i = 0; i < state.inputs().size(); ++i)
    if (const at::Tensor& real = state.inputs()[i].tensor; real.requires_grad())
      walk.ends_at(torch::autograd::impl::gradient_edge(real), static_cast<int>(i));
  if (std::string why = walk.prepare(roots); !why.empty()) return why;
  std::vector<at::Tensor> tangents;
  for (const int output : joint.tangent_of)
    tangents.push_back(
        state.add_tangent(outputs[output], "tangent" + std::to_string(tangents.size())));
  // As a call of `backward` outside of all of the code's `with` blocks.
  const at::AutoGradMode no_grad(false);
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  walk.run(roots, tangents);
  state.backward_of(std::nullopt);
  for (const auto& [input, gradient] : walk.gradients()) {
    if (!gradient.defined()) continue;
    joint.gradient_of.push_back(input);
    gradients.push_back(gradient);
  }
  joint.has_user_functions = walk.has_user_functions();
  for (const Walk::Inner& inner : walk.inner()) {
    joint.inner.push_back(inner.root);
    gradients.push_back(inner.flow);
    gradients.push_back(inner.total);
  }
  return "";
}

}  // namespace braze::trace
