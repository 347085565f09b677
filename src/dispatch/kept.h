// What a call of compiled code keeps for its nodes of autograd (backward_node.h, result_nodes.h).
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "dispatch/backward_node.h"
#include "pytorch/nodes.h"

namespace braze::dispatch {

using pytorch::NodePtr;

// The tangents of a run of the engine that have come so far.
struct Pending {
  torch::autograd::variable_list tangents;
  bool in_parts = false;
  // With ports: those that are to run still, and the gradients for them of tangents from before.
  std::set<int> ports;
  torch::autograd::variable_list gradients;
  Wanted wanted;
};

// A result whose gradient may be asked for: one of several that no other is computed from, or any
// where there are ports.
struct Asked {
  c10::weak_intrusive_ptr<c10::TensorImpl> result;
  bool is_given = false;  // its tangent has arrived
  bool is_spent = false;  // its tangent has arrived in a run that does not retain the graph
  // With ports: whether its node is gone, so that nobody can ask for its gradient.
  std::shared_ptr<std::atomic<bool>> is_gone;

  bool is_over() const {
    return is_given || is_spent || (is_gone ? is_gone->load() : result.expired());
  }
};

// What a call keeps for its nodes.
struct Kept {
  std::shared_ptr<Differentiated> code;
  std::vector<torch::autograd::SavedVariable> saved;   // for the backward
  std::vector<torch::autograd::SavedVariable> inputs;  // for the second backward
  // Results, for the second backward: what flows to one there is what flows to the user's.
  struct Result {
    pytorch::WeakNodePtr node;
    uint32_t number = 0;  // among those of the node
    // Of those that others are computed from, or whose formula uses them.
    std::optional<torch::autograd::SavedVariable> saved;
  };
  std::vector<Result> results;  // by tangent
  std::vector<int64_t> symbols;
  std::vector<double> numbers;
  std::shared_ptr<const pytorch::GeneratorState> drawn_from;
  std::mutex mutex;
  std::map<int, Pending> pending;                    // by run of the engine
  std::vector<pytorch::WeakNodePtr> nodes_of_inner;  // with ports
  std::vector<Asked> asked;                // by tangent of the first node; empty: it has one
  const StagedBackward* stages = nullptr;  // where there are nodes of stages

  // No result's gradient can be asked for any more. With the mutex.
  bool is_over() const { return std::ranges::all_of(asked, &Asked::is_over); }
  // In eager, a result whose gradient may still be asked for has nodes of its own, which are not
  // released with those of others.
  // `stage`: only what no stage behind this one needs.
  void release(std::optional<size_t> stage = {});
  // A tangent of a result has arrived, the one of that number. With the mutex.
  void note(Asked& result, size_t tangent);
  // The gradients of all inputs that are wanted. `asking`: the node that does.
  torch::autograd::variable_list run_whole(const NodePtr& asking,
                                           torch::autograd::variable_list tangents,
                                           const Wanted& wanted);
  // Whether such a run is of the first stage alone.
  bool runs_in_stages(const torch::autograd::variable_list& tangents) const;
  // The gradients that a stage gives and, behind them, what it hands on.
  torch::autograd::variable_list run_stage(const NodePtr& asking, size_t stage,
                                           torch::autograd::variable_list tangents);
  // The gradients of inputs and, behind them, of all inner results.
  torch::autograd::variable_list run_part(const NodePtr& asking,
                                          const torch::autograd::variable_list& tangents,
                                          const torch::autograd::variable_list& inner_results,
                                          const Wanted& wanted);
  // An inner result, by its number in Joint::inner. With the mutex.
  at::Tensor inner_result(size_t number, const NodePtr& node);

 private:
  bool let_go(std::optional<size_t> stage);
  void reset(std::optional<size_t> stage);
  std::function<at::Tensor(size_t)> unpack(const NodePtr& asking,
                                           const std::vector<torch::autograd::SavedVariable>& from);
  SecondBackward::Call second_call(const NodePtr& asking);
  at::Tensor result(size_t tangent);
  std::vector<double> numbers_of(const Backward& backward) const;
};

// Of `vmap` over gradients (is_grads_batched): only PyTorch's operators take these.
bool are_batched(const torch::autograd::variable_list& tangents);

// Whether anybody sees what flows into the node.
bool has_hooks(torch::autograd::Node& node);

// The same tensor with the same counter of versions, but no view to autograd and without a history.
at::Tensor without_base(const at::Tensor& tensor);
// A result's history is that of the call, not that of what it is a view of.
void set_history(at::Tensor& result, const NodePtr& node);

}  // namespace braze::dispatch
