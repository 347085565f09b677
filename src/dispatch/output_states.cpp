#include "dispatch/output_states.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/detach.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/variable.h>

namespace braze::dispatch {
namespace {

at::Tensor over_same_memory(const at::Tensor& tensor, bool inference) {
  c10::InferenceMode mode(inference);
  const auto backend = tensor.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      c10::Storage(tensor.storage()), c10::DispatchKeySet(backend), tensor.dtype());
  impl->set_storage_offset(tensor.storage_offset());
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  return at::Tensor(std::move(impl));
}

// A view of a tensor that is no inference tensor, where the call is in inference mode: of the
// output that is its base, or of one that nobody else has.
at::Tensor normal_view(const at::Tensor& tensor, const std::vector<at::Tensor>& outputs,
                       std::span<const OutputState> states) {
  c10::InferenceMode mode(false);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (states[i].is_made && !states[i].is_inference && !states[i].is_view &&
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
                const std::vector<at::Tensor>& outputs, std::span<const OutputState> states) {
  if (state.is_inference != output.is_inference())
    output = state.is_inference || !state.is_view ? over_same_memory(output, state.is_inference)
                                                  : normal_view(output, outputs, states);
  if (state.is_inference) return;
  // Where the graph's operators run without autograd.
  if (state.is_view && !output.is_view()) output = normal_view(output, outputs, states);
  if (!output.is_view()) return;
  auto* view = torch::autograd::impl::get_view_autograd_meta(output);
  if (!state.is_view) {
    // `detach` of what somebody else holds; else a tensor that was changed in place (`t_`).
    const bool base_is_held = view->get_backward_view().base_.use_count() > 1;
    output = base_is_held ? at::detach(output) : over_same_memory(output, false);
    return;
  }
  const auto creation = static_cast<torch::autograd::CreationMeta>(state.creation);
  if (view->get_creation_meta() != creation) view->set_creation_meta(creation);
}

}  // namespace

OutputState state_of(const at::Tensor& traced) {
  OutputState state{.is_made = true, .is_inference = traced.is_inference()};
  if (state.is_inference || !traced.is_view()) return state;
  state.is_view = true;
  state.creation = static_cast<uint8_t>(
      torch::autograd::impl::get_view_autograd_meta(traced)->get_creation_meta());
  return state;
}

void take_states(std::vector<at::Tensor>& outputs, std::span<const OutputState> states) {
  if (states.size() != outputs.size()) return;
  // Bases first.
  for (const bool views : {false, true})
    for (size_t i = 0; i < outputs.size(); ++i)
      if (states[i].is_made && states[i].is_view == views)
        take_state(outputs[i], states[i], outputs, states);
}

}  // namespace braze::dispatch
