#include "trace/joint.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <exception>
#include <optional>
#include <string_view>

#include "trace/trace_state.h"
#include "trace/walk.h"

namespace braze::trace {
namespace {

using torch::autograd::Edge;

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

void end_at_inputs(Walk& walk, const TraceState& state) {
  for (size_t i = 0; i < state.inputs().size(); ++i)
    if (const at::Tensor& real = state.inputs()[i].tensor; real.requires_grad())
      walk.ends_at(state.gradient_edge(real), static_cast<int>(i));
}

// Whether a backward in the traced code has used up what that of this output needs. Nodes that have
// saved nothing can be called again, so one that has been met is called to see.
bool is_used_up(TraceState& state, const Edge& root, const at::Tensor& output, uint64_t begin) {
  if (!state.has_used_up()) return false;
  Walk walk(state, begin);
  end_at_inputs(walk, state);
  if (!walk.prepare({root}).empty() || !walk.meets_used_up()) return false;
  try {
    const at::AutoGradMode no_grad(false);
    walk.run({root}, {at::ones_like(output)});
  } catch (const std::exception& error) {  // a Function of the user's raises a Python exception
    return std::string_view(error.what()).find("a second time") != std::string_view::npos;
  }
  return false;
}

}  // namespace

std::string differentiate(TraceState& state, const std::vector<at::Tensor>& outputs, uint64_t begin,
                          std::vector<at::Tensor>& gradients, graph::Joint& joint) {
  if (state.control_flow.is_used()) return "a branch or a loop on data in grad mode";
  if (torch::autograd::AnomalyMode::is_enabled()) return "anomaly mode is on";
  std::vector<Edge> roots;
  std::vector<at::Tensor> leaves;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!as_fake(outputs[i]) || !outputs[i].requires_grad()) continue;
    if (std::string why = why_no_history(outputs, i, state.graph()); !why.empty()) return why;
    if (outputs[i].is_leaf()) {
      leaves.push_back(outputs[i]);
      continue;
    }
    const Edge root = torch::autograd::impl::gradient_edge(outputs[i]);
    if (is_used_up(state, root, outputs[i], begin)) continue;
    joint.tangent_of.push_back(static_cast<int>(i));
    roots.push_back(root);
  }
  if (roots.empty()) return "";
  // The history of the outputs is made from the inputs as they are before the changes.
  if (state.changed_leaves.any())
    return "requires_grad of a tensor is changed, and a result requires grad";
  Walk walk(state, begin);
  end_at_inputs(walk, state);
  if (std::string why = walk.prepare(roots); !why.empty()) return why;
  for (const at::Tensor& leaf : leaves)
    if (walk.drops(torch::autograd::impl::gradient_edge(leaf)))
      return "a result is a leaf that the traced code makes, and others depend on it";
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
