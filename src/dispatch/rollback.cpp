#include "dispatch/rollback.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>

#include "dispatch/input_versions.h"
#include "dispatch/tensors.h"
#include "graph/data_errors.h"

namespace braze::dispatch {

RollbackNeeds RollbackNeeds::of(const graph::Graph& graph) {
  RollbackNeeds needs;
  const auto any = [&](auto&& holds) { return std::ranges::any_of(graph.nodes(), holds); };
  needs.refuses = any([](const auto& node) { return graph::may_refuse_data(*node); });
  needs.random_numbers = any([](const auto& node) { return node->op().effects.random; });
  needs.inputs = written_inputs(graph);
  return needs;
}

void Rollback::keep(const RollbackNeeds& needs, c10::TensorImpl* const* inputs, bool writes_early) {
  if (needs.random_numbers) drawn_from_.emplace();
  if (!writes_early || !needs.refuses) return;
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (int input : needs.inputs)
    if (inputs[input]) {
      const at::Tensor tensor = borrow(inputs[input]);
      inputs_.emplace_back(tensor, tensor.clone());
    }
}

void Rollback::undo() {
  if (drawn_from_) drawn_from_->restore();
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (auto& [tensor, contents] : inputs_) tensor.copy_(contents);
}

}  // namespace braze::dispatch
