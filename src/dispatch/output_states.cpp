#include "dispatch/output_states.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/detach.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "base/error.h"
#include "dispatch/tensors.h"
#include "pytorch/nodes.h"

namespace braze::dispatch {
namespace {

using graph::OutputRole;
using graph::OutputState;
using graph::ViewOrigin;
using torch::autograd::CreationMeta;

ViewOrigin origin_of(CreationMeta creation) {
  switch (creation) {
    case CreationMeta::DEFAULT:
      return ViewOrigin::kPlain;
    case CreationMeta::IN_CUSTOM_FUNCTION:
      return ViewOrigin::kCustomFunction;
    case CreationMeta::MULTI_OUTPUT_NODE:
      return ViewOrigin::kMultiOutput;
    case CreationMeta::NO_GRAD_MODE:
      return ViewOrigin::kNoGrad;
    case CreationMeta::INFERENCE_MODE:
      return ViewOrigin::kInferenceMode;
  }
  BRAZE_UNREACHABLE("creation of a view");
}

CreationMeta creation_of(ViewOrigin origin) {
  switch (origin) {
    case ViewOrigin::kPlain:
      return CreationMeta::DEFAULT;
    case ViewOrigin::kCustomFunction:
      return CreationMeta::IN_CUSTOM_FUNCTION;
    case ViewOrigin::kMultiOutput:
      return CreationMeta::MULTI_OUTPUT_NODE;
    case ViewOrigin::kNoGrad:
      return CreationMeta::NO_GRAD_MODE;
    case ViewOrigin::kInferenceMode:
      return CreationMeta::INFERENCE_MODE;
  }
  BRAZE_UNREACHABLE("origin of a view");
}

// What a backward in the compiled code has been through.
class UsedUpNode final : public torch::autograd::Node {
 public:
  using Node::Node;
  std::string name() const override { return "BrazeBackward"; }

 protected:
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    TORCH_CHECK(false, torch::autograd::ERR_BACKWARD_TWICE);
  }
};

at::Tensor over_same_memory(const at::Tensor& tensor, bool inference) {
  c10::InferenceMode mode(inference);
  const auto backend = tensor.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::Storage(tensor.storage()),
                                                   c10::DispatchKeySet(backend), tensor.dtype());
  impl->set_storage_offset(tensor.storage_offset());
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  return at::Tensor(std::move(impl));
}

// A view of a tensor that is no inference tensor, where the call is in inference mode: of the
// output that is its base, or of one that nobody else has.
at::Tensor normal_view(const at::Tensor& tensor, const std::vector<at::Tensor>& outputs,
                       std::span<const OutputRole> roles) {
  c10::InferenceMode mode(false);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (const OutputState& state = roles[i].state;
        state.is_made && !state.is_inference && !state.is_view && !state.is_alias &&
        outputs[i].is_alias_of(tensor) && outputs[i].dtype() == tensor.dtype() &&
        !outputs[i].is_inference())
      return at::as_strided(outputs[i], tensor.sizes(), tensor.strides(), tensor.storage_offset());
  at::Tensor base = over_same_memory(tensor, false);
  const auto count = static_cast<int64_t>(tensor.storage().nbytes() / tensor.itemsize());
  base.unsafeGetTensorImpl()->set_storage_offset(0);
  base.unsafeGetTensorImpl()->set_sizes_contiguous({count});
  return at::as_strided(base, tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

void take_state(at::Tensor& output, const OutputState& state,
                const std::vector<at::Tensor>& outputs, std::span<const OutputRole> roles) {
  if (state.is_inference != output.is_inference())
    output = state.is_inference || !state.is_view ? over_same_memory(output, state.is_inference)
                                                  : normal_view(output, outputs, roles);
  if (state.is_inference) return;
  // Where the graph's operators run without autograd.
  if (state.is_view && !output.is_view()) output = normal_view(output, outputs, roles);
  if (!state.is_view) {
    // It is either detached from a tensor that somebody else holds, whose counter of versions it
    // shares, or was changed in place (`t_`).
    if (output.is_view() || state.is_alias) output = at::detach(output);
    return;
  }
  if (!output.is_view()) return;
  auto* view = torch::autograd::impl::get_view_autograd_meta(output);
  const CreationMeta creation = creation_of(state.view);
  if (view->get_creation_meta() != creation) view->set_creation_meta(creation);
}

void take_history(at::Tensor& output, graph::History history,
                  std::span<c10::TensorImpl* const> inputs) {
  if (history == graph::History::kLeaf) output.requires_grad_();
  if (history != graph::History::kUsedUp) return;
  torch::autograd::edge_list edges;
  for (c10::TensorImpl* input : inputs)
    if (input && input->requires_grad())
      edges.push_back(torch::autograd::impl::gradient_edge(borrow(input)));
  torch::autograd::set_history(output, pytorch::make_node<UsedUpNode>(std::move(edges)));
}

graph::History history_of(const at::Tensor& traced) {
  if (!traced.requires_grad()) return graph::History::kNone;
  return traced.is_leaf() ? graph::History::kLeaf : graph::History::kUsedUp;
}

}  // namespace

graph::OutputState state_of(const at::Tensor& traced) {
  OutputState state{
      .is_made = true, .is_inference = traced.is_inference(), .history = history_of(traced)};
  if (state.is_inference || !traced.is_view()) return state;
  state.is_view = true;
  state.view =
      origin_of(torch::autograd::impl::get_view_autograd_meta(traced)->get_creation_meta());
  return state;
}

void take_states(std::vector<at::Tensor>& outputs, std::span<const OutputRole> roles,
                 std::span<c10::TensorImpl* const> inputs) {
  BRAZE_CHECK(roles.size() >= outputs.size(), "outputs without a role");
  // Bases first.
  for (const bool views : {false, true})
    for (size_t i = 0; i < outputs.size(); ++i)
      if (const OutputState& state = roles[i].state; state.is_made && state.is_view == views)
        take_state(outputs[i], state, outputs, roles);
  for (size_t i = 0; i < outputs.size(); ++i)
    take_history(outputs[i], roles[i].state.history, inputs);
}

}  // namespace braze::dispatch
