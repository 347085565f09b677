#include "dispatch/second_backward.h"

#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <stdexcept>

#include "passes/dce.h"
#include "trace/replay.h"

namespace braze::dispatch {

using graph::InputKind;

SecondBackward::SecondBackward(graph::Graph forward, graph::Joint joint,
                               std::vector<at::Tensor> constants)
    : forward_(std::move(forward)), joint_(std::move(joint)), constants_(std::move(constants)) {
  std::vector<graph::Value*> outputs;
  for (const int output : joint_.tangent_of) outputs.push_back(forward_.outputs()[output]);
  forward_.set_outputs(std::move(outputs));
  const std::vector<graph::Mutation> mutations = forward_.mutations();
  forward_.set_mutations({});
  passes::eliminate_dead_code(forward_);
  for (size_t i = 0; i < forward_.inputs().size(); ++i) {
    const graph::Input& input = forward_.inputs()[i];
    const bool is_tensor = input.kind == InputKind::kUser || input.kind == InputKind::kParameter;
    if (!is_tensor || !forward_.has_uses(input.value)) continue;
    needed_.push_back(static_cast<int>(i));
    for (const graph::Mutation& mutation : mutations)
      writes_what_it_needs_ = writes_what_it_needs_ || mutation.target == input.value;
  }
}

// Aliases of the inputs, in order. Gradients are taken with respect to these: with respect to the
// inputs themselves they would run the inputs' hooks, which are to run when the gradients arrive
// there.
std::vector<at::Tensor> SecondBackward::aliases(const std::vector<at::Tensor>& inputs,
                                                std::span<const double> numbers) const {
  std::vector<at::Tensor> given = constants_;
  given.resize(forward_.inputs().size());
  for (size_t i = 0; i < needed_.size(); ++i)
    given[needed_[i]] = inputs[i].requires_grad() ? inputs[i].view_as(inputs[i]) : inputs[i];
  size_t number = 0;
  for (size_t i = 0; i < given.size(); ++i)
    if (forward_.inputs()[i].kind == InputKind::kNumber)
      given[i] = at::scalar_tensor(numbers[number++], at::TensorOptions(at::kDouble));
  return given;
}

// With respect to the inputs `leaves` of `forward`. `tangents`: by output.
std::vector<at::Tensor> SecondBackward::gradients(const graph::Graph& forward,
                                                  const std::vector<at::Tensor>& given,
                                                  const std::vector<int>& leaves,
                                                  const std::vector<at::Tensor>& tangents,
                                                  std::span<const int64_t> symbols,
                                                  const pytorch::GeneratorState* drawn_from) const {
  if (joint_.has_user_functions)
    throw std::runtime_error(
        "gradients of gradients (create_graph=True) go through a torch.autograd.Function in "
        "compiled "
        "code, whose formula is not known to be differentiable there; call the Function in a "
        "function under braze.disable, which leaves it to eager");
  if (writes_what_it_needs_)
    throw std::runtime_error(
        "gradients of gradients (create_graph=True) are asked of compiled code that has written to "
        "its inputs, whose values from before are gone; write to a copy, or call it in a function "
        "under braze.disable, which leaves it to eager");
  std::vector<at::Tensor> results;
  if (drawn_from) {
    const pytorch::GeneratorState now;
    drawn_from->restore();
    results = trace::replay(forward, given, symbols, /*check=*/false);
    now.restore();
  } else {
    results = trace::replay(forward, given, symbols, /*check=*/false);
  }
  std::vector<at::Tensor> roots, gradients_of_roots, taken;
  for (size_t i = 0; i < results.size(); ++i)
    if (tangents[i].defined() && results[i].requires_grad()) {
      roots.push_back(results[i]);
      gradients_of_roots.push_back(tangents[i]);
    }
  std::vector<at::Tensor> gradients(leaves.size());
  std::vector<size_t> places;
  for (size_t i = 0; i < leaves.size(); ++i)
    if (const at::Tensor& leaf = given[leaves[i]]; leaf.defined() && leaf.requires_grad()) {
      taken.push_back(leaf);
      places.push_back(i);
    }
  if (roots.empty() || taken.empty()) return gradients;
  std::vector<at::Tensor> found =
      torch::autograd::grad(roots, taken, gradients_of_roots, /*retain_graph=*/true,
                            /*create_graph=*/true, /*allow_unused=*/true);
  for (size_t i = 0; i < found.size(); ++i) gradients[places[i]] = std::move(found[i]);
  return gradients;
}

std::vector<at::Tensor> SecondBackward::run(const std::vector<at::Tensor>& inputs,
                                            const std::vector<at::Tensor>& tangents,
                                            std::span<const int64_t> symbols,
                                            std::span<const double> numbers,
                                            const pytorch::GeneratorState* drawn_from) const {
  return gradients(forward_, aliases(inputs, numbers), joint_.gradient_of, tangents, symbols,
                   drawn_from);
}

std::vector<at::Tensor> SecondBackward::run_part(const std::vector<at::Tensor>& inputs,
                                                 const std::vector<at::Tensor>& inner,
                                                 const std::vector<at::Tensor>& tangents,
                                                 std::span<const int64_t> symbols,
                                                 std::span<const double> numbers,
                                                 const pytorch::GeneratorState* drawn_from) const {
  graph::Graph forward = forward_.clone();
  std::vector<graph::Value*> outputs;
  std::vector<at::Tensor> of_outputs;
  for (size_t i = 0; i < tangents.size(); ++i) {
    if (!tangents[i].defined()) continue;
    outputs.push_back(forward.outputs()[i]);
    of_outputs.push_back(tangents[i]);
  }
  std::vector<graph::Value*> results(forward.outputs());
  forward.set_outputs({});
  std::vector<at::Tensor> given = aliases(inputs, numbers);
  std::vector<int> leaves = joint_.gradient_of;
  for (size_t i = 0; i < joint_.inner.size(); ++i) {
    graph::Value* result = results[joint_.inner[i]];
    leaves.push_back(static_cast<int>(given.size()));
    given.push_back(inner[i].defined() ? inner[i].view_as(inner[i]) : inner[i]);
    graph::Value* input = forward.add_input(result->type(), InputKind::kUser, "");
    forward.replace_all_uses(result, input);
  }
  forward.set_outputs(std::move(outputs));
  passes::eliminate_dead_code(forward);
  return gradients(forward, given, leaves, of_outputs, symbols, drawn_from);
}

}  // namespace braze::dispatch
