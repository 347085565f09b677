#include "dispatch/rollback.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>

#include "dispatch/input_versions.h"
#include "dispatch/tensors.h"
#include "graph/data_errors.h"
#include "graph/devices.h"

namespace braze::dispatch {
namespace {

// The tensor, narrowed to one index along dimensions of stride 0: PyTorch does not write to a
// tensor in which several indices share a place.
at::Tensor each_once(at::Tensor tensor) {
  for (int64_t dim = 0; dim < tensor.dim(); ++dim)
    if (tensor.stride(dim) == 0 && tensor.size(dim) > 1) tensor = tensor.narrow(dim, 0, 1);
  return tensor;
}

}  // namespace

RollbackNeeds RollbackNeeds::of(const graph::Graph& graph) {
  RollbackNeeds needs;
  const auto any = [&](auto&& holds) { return std::ranges::any_of(graph.nodes(), holds); };
  needs.refuses = any([](const auto& node) { return graph::may_refuse_data(*node); });
  needs.random_numbers = any([](const auto& node) { return node->op().effects.random; });
  const std::vector<graph::Device> gpus = graph::accelerators(graph);
  if (!gpus.empty() && gpus[0].type == graph::Device::Type::kCUDA) needs.gpu = gpus[0].index;
  needs.inputs = written_inputs(graph);
  return needs;
}

void Rollback::keep(const RollbackNeeds& needs, c10::TensorImpl* const* inputs) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (int input : needs.inputs)
    if (inputs[input]) {
      const at::Tensor elements = each_once(borrow(inputs[input]));
      inputs_.emplace_back(elements, elements.clone());
    }
}

void Rollback::undo() {
  if (drawn_from_) drawn_from_->restore();
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (auto& [tensor, contents] : inputs_) tensor.copy_(contents);
}

}  // namespace braze::dispatch
