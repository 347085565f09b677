#include "dispatch/kept.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <stdexcept>

#include "dispatch/staged_backward.h"

namespace braze::dispatch {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

void Kept::release(std::optional<size_t> stage) {
  std::lock_guard lock(mutex);
  for (Asked& result : asked) result.is_spent |= result.is_given;
  if (is_over()) reset(stage);
}

// Releases early what is released behind this run in any case. What a user's Function computes
// may fail on its data, and is to be run again then.
bool Kept::let_go(std::optional<size_t> stage) {
  if (torch::autograd::get_current_graph_task_keep_graph()) return false;
  if (code->joint.has_user_functions) return false;
  std::lock_guard lock(mutex);
  if (!is_over()) return false;
  reset(stage);
  return true;
}

void Kept::reset(std::optional<size_t> stage) {
  if (stage && *stage + 1 < stages->stages().size()) {
    for (const size_t number : stages->stages()[*stage].freed) saved[number].reset_data();
    return;
  }
  for (SavedVariable& variable : saved) variable.reset_data();
  for (SavedVariable& variable : inputs) variable.reset_data();
  for (Result& result : results)
    if (result.saved) result.saved->reset_data();
}

// In eager, nodes that have kept nothing run any number of times.
void Kept::note(Asked& result, size_t tangent) {
  const Backward& backward = code->parts ? *code->parts : *code->whole;
  if (result.is_spent && backward.takes_kept(tangent))
    throw std::runtime_error(torch::autograd::ERR_BACKWARD_TWICE);
  result.is_given = true;
}

bool are_batched(const variable_list& tangents) {
  constexpr c10::DispatchKeySet batched{c10::DispatchKey::FuncTorchBatched,
                                        c10::DispatchKey::Batched};
  return std::ranges::any_of(tangents, [&](const at::Tensor& tangent) {
    return tangent.defined() && tangent.key_set().has_any(batched);
  });
}

variable_list Kept::run_whole(const NodePtr& asking, variable_list tangents, const Wanted& wanted) {
  if (at::GradMode::is_enabled() || are_batched(tangents))  // create_graph=True
    return code->second->run(second_call(asking), tangents, wanted);
  return code->whole->run({unpack(asking, saved), [this] { return let_go({}); }},
                          std::move(tangents), symbols, numbers_of(*code->whole), wanted);
}

bool Kept::runs_in_stages(const variable_list& tangents) const {
  return stages && !at::GradMode::is_enabled() && !are_batched(tangents);
}

variable_list Kept::run_stage(const NodePtr& asking, size_t stage, variable_list tangents) {
  return stages->run(stage, {unpack(asking, saved), [this, stage] { return let_go(stage); }},
                     std::move(tangents), symbols, numbers);
}

variable_list Kept::run_part(const NodePtr& asking, const variable_list& tangents,
                             const variable_list& inner_results, const Wanted& wanted) {
  if (at::GradMode::is_enabled() || are_batched(tangents))
    return code->second->run_part(second_call(asking), inner_results, tangents, wanted);
  Wanted of_all = wanted;
  if (!wanted.empty()) of_all.resize(wanted.size() + code->joint.inner.size(), true);
  return code->parts->run({unpack(asking, saved), [] { return false; }}, tangents, symbols,
                          numbers_of(*code->parts), of_all);
}

std::function<at::Tensor(size_t)> Kept::unpack(const NodePtr& asking,
                                               const std::vector<SavedVariable>& variables) {
  return [this, asking, &variables](size_t i) {
    std::lock_guard lock(mutex);
    return variables[i].unpack(asking);
  };
}

SecondBackward::Call Kept::second_call(const NodePtr& asking) {
  return {unpack(asking, inputs),
          unpack(asking, saved),
          symbols,
          numbers,
          drawn_from,
          [this](size_t tangent) {
            return torch::autograd::Edge(results[tangent].node.lock(), results[tangent].number);
          },
          [this](size_t tangent) { return result(tangent); }};
}

at::Tensor Kept::inner_result(size_t number, const NodePtr& node) {
  return results[code->joint.inner[number]].saved->unpack(node);
}

// Undefined if it is not kept, or has been written to and eager would not look at it.
at::Tensor Kept::result(size_t tangent) {
  std::lock_guard lock(mutex);
  const Result& result = results[tangent];
  NodePtr node = result.node.lock();
  if (!node || !result.saved) return {};
  try {
    return result.saved->unpack(std::move(node));
  } catch (const c10::Error&) {
    if (code->second->uses_result(tangent)) throw;
    return {};
  }
}

std::vector<double> Kept::numbers_of(const Backward& backward) const {
  std::vector<double> taken;
  for (const int number : backward.numbers()) taken.push_back(numbers[number]);
  return taken;
}

bool has_hooks(torch::autograd::Node& node) {
  return !node.pre_hooks().empty() || !node.tensor_pre_hooks().empty() ||
         !node.post_hooks().empty() || !node.retains_grad_hooks().empty();
}

at::Tensor without_base(const at::Tensor& tensor) {
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return at::Tensor(impl.shallow_copy_and_detach(impl.version_counter(),
                                                 /*allow_tensor_metadata_change=*/true));
}

void set_history(at::Tensor& result, const NodePtr& node) {
  if (result.is_view()) result = without_base(result);
  torch::autograd::set_history(result, node);
}

}  // namespace braze::dispatch
