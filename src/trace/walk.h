// A walk through nodes of autograd that hold fakes, in the order of PyTorch's engine: by descending
// sequence number; gradients that meet are added up in the order in which they come. Calling a node
// on fakes appends the operators of its formula to the graph of the trace.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace braze::trace {

class TraceState;

class Walk {
 public:
  using Edge = torch::autograd::Edge;
  using Node = torch::autograd::Node;
  static constexpr int kDropped = -1;  // a place whose gradient nobody wants

  // An output that other outputs are computed from.
  struct Inner {
    int root = 0;
    at::Tensor flow, total;
  };

  // `begin`: nodes with a lower sequence number are from before the trace.
  Walk(TraceState& state, uint64_t begin) : state_(state), begin_(begin) {}

  // The gradient that arrives at this edge belongs to `number`; the walk does not go on behind it.
  void ends_at(const Edge& edge, int number) { ends_[place_of(edge)] = number; }
  // The same, but the walk goes on to what else is wanted.
  void passes(const Edge& edge, int number) { passed_.emplace(place_of(edge), number); }
  // What to do with leaves that are no ends. Unless said otherwise, those that the trace has made
  // are dropped, and others refused.
  void wants_all_leaves() { of_leaves_ = OfLeaves::kWanted; }  // numbered as in `leaves`
  void drops_leaves() { of_leaves_ = OfLeaves::kDropped; }
  // What a node has saved is given up when it has been called, as by the engine.
  void uses_up() { uses_up_ = true; }
  // Of a backward in the traced code.
  void is_in_code() { in_code_ = true; }

  // What cannot be; empty if the walk can be made.
  std::string prepare(const std::vector<Edge>& roots);
  void run(const std::vector<Edge>& roots, const std::vector<at::Tensor>& tangents);

  const std::map<int, at::Tensor>& gradients() const { return gradients_; }
  std::map<int, at::Tensor> take_gradients() { return std::move(gradients_); }
  const std::vector<at::Tensor>& leaves() const { return leaves_; }
  bool has_user_functions() const;
  // What arrives there is not wanted.
  bool drops(const Edge& edge) const {
    const auto end = ends_.find(place_of(edge));
    return end != ends_.end() && end->second == kDropped;
  }
  // A node whose saved values an earlier walk has used up is among those to be called.
  bool meets_used_up() const;
  // In the order of the walk.
  const std::vector<Inner>& inner() const { return inner_; }

 private:
  using Place = std::pair<const Node*, uint32_t>;  // an input of an autograd node
  struct State {
    int expected = 0;  // edges that lead here and have not brought anything yet
    bool is_wanted = false;
    torch::autograd::variable_list inputs;
  };

  static Place place_of(const Edge& edge) { return {edge.function.get(), edge.input_nr}; }
  bool is_inside(const Edge& edge) const {
    return edge.is_valid() && !ends_.contains(place_of(edge));
  }
  bool is_wanted(const Edge& edge) const;
  void meet(const Edge& edge, std::vector<Node*>& open);
  bool meet_leaf(const Edge& edge);
  void find_wanted();
  void deliver(const Edge& edge, const at::Tensor& gradient);
  void make_ready(Node* node) { ready_.emplace(node->sequence_nr(), node); }
  void add_tangents(Node& node, State& state);
  void call(Node& node);

  TraceState& state_;
  const uint64_t begin_;
  enum class OfLeaves : uint8_t { kOwn, kWanted, kDropped } of_leaves_ = OfLeaves::kOwn;
  bool uses_up_ = false, in_code_ = false;
  std::map<Place, int> ends_;
  std::multimap<Place, int> passed_;
  std::vector<at::Tensor> leaves_;
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

}  // namespace braze::trace
