#include "dispatch/backward_node.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <stdexcept>

#include "dispatch/tensors.h"

namespace braze::dispatch {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using BackwardInput = Backward::BackwardInput;

// A shared_ptr, or, from PyTorch 2.13 on, an intrusive_ptr.
using NodePtr = decltype(Edge::function);

template <class T>
auto make_node() {
  if constexpr (std::is_same_v<NodePtr, std::shared_ptr<Node>>)
    return std::make_shared<T>();
  else
    return c10::make_intrusive<T>();
}

// The tangents of a run of the engine that have come so far.
struct Pending {
  variable_list tangents;
  bool in_parts = false;
};

// One of several results that no other result is computed from.
struct Asked {
  c10::weak_intrusive_ptr<c10::TensorImpl> result;
  bool is_given = false;  // its tangent has arrived
  bool is_spent = false;  // its tangent has arrived in a run that does not retain the graph
};

// What a call keeps for its nodes.
struct Kept {
  std::shared_ptr<Differentiated> code;
  std::vector<SavedVariable> saved;   // for the backward
  std::vector<SavedVariable> inputs;  // for the second backward
  std::vector<SavedVariable> inner;   // results, for the second backward in parts
  std::vector<int64_t> symbols;
  std::vector<double> numbers;
  std::shared_ptr<const pytorch::GeneratorState> drawn_from;
  std::mutex mutex;
  std::map<int, Pending> pending;  // by run of the engine
  std::vector<Asked> asked;        // by tangent of the first node; empty: it has one
};

class BackwardNode final : public Node {
 public:
  std::string name() const override { return "BrazeBackward"; }

  // Only the last node releases: those in front of it leave their tangents to it. In eager, a
  // result whose gradient may still be asked for has nodes of its own, which are not released with
  // those of others.
  void release_variables() override {
    if (!is_last()) return;
    std::lock_guard lock(kept->mutex);
    for (Asked& asked : kept->asked) asked.is_spent |= asked.is_given;
    if (is_over()) reset();
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
  // No result's gradient can be asked for any more. With the mutex.
  bool is_over() const {
    return std::ranges::all_of(kept->asked, [](const Asked& asked) {
      return asked.is_given || asked.is_spent || asked.result.expired();
    });
  }

  void reset() {
    for (SavedVariable& variable : kept->saved) variable.reset_data();
    for (SavedVariable& variable : kept->inputs) variable.reset_data();
    for (SavedVariable& variable : kept->inner) variable.reset_data();
  }

  // Releases early what is released behind this run in any case. What a user's Function computes
  // may fail on its data, and is to be run again then.
  bool let_go() {
    if (torch::autograd::get_current_graph_task_keep_graph()) return false;
    if (kept->code->joint.has_user_functions) return false;
    std::lock_guard lock(kept->mutex);
    if (!is_over()) return false;
    reset();
    return true;
  }

  size_t later() const { return kept->code->joint.inner.size() - number; }
  bool is_last() const { return later() == 0; }

  void note(const variable_list& given) {
    if (number > 0) return;
    std::lock_guard lock(kept->mutex);
    for (size_t i = 0; i < kept->asked.size(); ++i) {
      if (!given[i].defined()) continue;
      if (kept->asked[i].is_spent) throw std::runtime_error(torch::autograd::ERR_BACKWARD_TWICE);
      kept->asked[i].is_given = true;
    }
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
      if (!node.pre_hooks().empty() || !node.tensor_pre_hooks().empty() ||
          !node.post_hooks().empty() || !node.retains_grad_hooks().empty())
        return true;
      if (!plan || plan->empty()) continue;
      const auto info = plan->find(&node);
      if (info == plan->end() || !info->second.needed_ || info->second.captures_) return true;
    }
    return false;
  }

  variable_list run_whole(variable_list given) {
    if (at::GradMode::is_enabled())  // create_graph=True
      return kept->code->second->run(unpacked(kept->inputs), given, kept->symbols, kept->numbers,
                                     kept->drawn_from.get());
    return kept->code->whole->run(saved([this] { return let_go(); }), std::move(given),
                                  kept->symbols, numbers_of(*kept->code->whole));
  }

  variable_list run_part(const variable_list& given) {
    variable_list found(num_outputs());
    if (std::ranges::none_of(given, [](const at::Tensor& t) { return t.defined(); })) return found;
    variable_list gradients;
    if (at::GradMode::is_enabled()) {
      gradients =
          kept->code->second->run_part(unpacked(kept->inputs), unpacked_inner(), given,
                                       kept->symbols, kept->numbers, kept->drawn_from.get());
    } else {
      Backward& parts = *kept->code->parts;
      gradients = parts.run(saved([] { return false; }), given, kept->symbols, numbers_of(parts));
    }
    // The gradients of inputs come first, then those of all inner results; among the edges of a
    // node those to later nodes come first.
    const size_t of_inputs = kept->code->joint.gradient_of.size();
    for (size_t i = 0; i < later(); ++i) found[i] = std::move(gradients[of_inputs + number + i]);
    std::move(gradients.begin(), gradients.begin() + of_inputs, found.begin() + later());
    return found;
  }

  std::vector<double> numbers_of(const Backward& backward) const {
    std::vector<double> taken;
    for (const int number : backward.numbers()) taken.push_back(kept->numbers[number]);
    return taken;
  }

  Backward::Saved saved(std::function<bool()> let_go) {
    const auto unpack = [this](size_t i) {
      std::lock_guard lock(kept->mutex);
      return kept->saved[i].unpack(getptr());
    };
    return {unpack, std::move(let_go)};
  }

  variable_list unpacked(const std::vector<SavedVariable>& variables) {
    std::lock_guard lock(kept->mutex);
    variable_list tensors;
    for (const SavedVariable& variable : variables) tensors.push_back(variable.unpack(getptr()));
    return tensors;
  }

  // The inner results of later nodes, in their places; this node's results depend on no others.
  variable_list unpacked_inner() {
    std::lock_guard lock(kept->mutex);
    variable_list tensors(number);
    for (size_t i = 0; i < later(); ++i)
      tensors.push_back(kept->inner[number + i].unpack(next_edge(i).function));
    return tensors;
  }
};

// The same tensor with the same counter of versions, but no view to autograd and without a history.
at::Tensor without_base(const at::Tensor& tensor) {
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return at::Tensor(impl.shallow_copy_and_detach(impl.version_counter(),
                                                 /*allow_tensor_metadata_change=*/true));
}

// A kept tensor may be a result as well, whose history would then hold itself.
at::Tensor without_history(const at::Tensor& tensor) {
  return tensor.requires_grad() ? without_base(tensor) : tensor;
}

// A result's history is that of the call, not that of what it is a view of.
void set_history(at::Tensor& result, const NodePtr& node) {
  if (result.is_view()) result = without_base(result);
  torch::autograd::set_history(result, node);
}

}  // namespace

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
  // The last node first, as those in front of it lead to it.
  std::vector<NodePtr> nodes(joint.inner.size() + 1);
  for (size_t number = nodes.size(); number-- > 0;) {
    auto node = make_node<BackwardNode>();
    torch::autograd::edge_list edges;
    for (size_t later = number + 1; later < nodes.size(); ++later)
      edges.emplace_back(nodes[later], 0);
    edges.insert(edges.end(), to_inputs.begin(), to_inputs.end());
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
    else if (has_history(index) && has_inner)  // any node may be the one that takes it
      kept->saved.emplace_back(without_base(call.outputs[index]), /*is_output=*/false);
    else
      kept->saved.emplace_back(call.outputs[index], /*is_output=*/has_history(index));
  }
  kept->inputs.reserve(call.code->second->needed().size());
  for (const int input : call.code->second->needed())
    kept->inputs.emplace_back(borrow(call.inputs[input]), /*is_output=*/false);
  for (const int tangent : joint.inner)
    kept->inner.emplace_back(call.outputs[joint.tangent_of[tangent]], /*is_output=*/true);
}

}  // namespace braze::dispatch
