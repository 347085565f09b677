#include "dispatch/training.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "dispatch/second_backward.h"
#include "dispatch/tensors.h"
#include "passes/counter_random.h"
#include "passes/dce.h"
#include "passes/functionalise.h"
#include "passes/partition.h"

namespace braze::dispatch {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using Source = Backward::Source;

// A shared_ptr, or, from PyTorch 2.13 on, an intrusive_ptr.
using NodePtr = decltype(torch::autograd::Edge::function);

template <class T>
auto make_node() {
  if constexpr (std::is_same_v<NodePtr, std::shared_ptr<Node>>)
    return std::make_shared<T>();
  else
    return c10::make_intrusive<T>();
}

// The backward of one call.
class BackwardNode final : public Node {
 public:
  std::string name() const override { return "BrazeBackward"; }

  void release_variables() override {
    std::lock_guard lock(mutex_);
    for (SavedVariable& variable : saved) variable.reset_data();
    for (SavedVariable& variable : inputs) variable.reset_data();
  }

  std::shared_ptr<Backward> backward;
  std::shared_ptr<const SecondBackward> second;
  std::vector<SavedVariable> saved;   // for `backward`
  std::vector<SavedVariable> inputs;  // for `second`
  std::vector<int64_t> symbols;
  std::vector<double> numbers;  // all floats of the call
  std::shared_ptr<const pytorch::GeneratorState> drawn_from;

 protected:
  variable_list apply(variable_list&& tangents) override {
    if (std::ranges::none_of(tangents, [](const at::Tensor& t) { return t.defined(); }))
      return variable_list(num_outputs());
    if (at::GradMode::is_enabled())  // create_graph=True
      return second->run(unpacked(inputs), tangents, symbols, numbers, drawn_from.get());
    std::vector<double> taken;
    for (const int number : backward->numbers()) taken.push_back(numbers[number]);
    return backward->run(unpacked(saved), tangents, symbols, taken);
  }

 private:
  variable_list unpacked(const std::vector<SavedVariable>& variables) {
    std::lock_guard lock(mutex_);
    variable_list tensors;
    for (const SavedVariable& variable : variables) tensors.push_back(variable.unpack(getptr()));
    return tensors;
  }
};

// The same tensor to its user, with the same counter of versions, but no view to autograd: its
// history is that of the call, not that of what it is a view of.
at::Tensor without_base(const at::Tensor& tensor) {
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return at::Tensor(impl.shallow_copy_and_detach(impl.version_counter(),
                                                 /*allow_tensor_metadata_change=*/true));
}

}  // namespace

std::unique_ptr<Training> Training::make(graph::Graph& graph, const graph::Joint& joint,
                                         const Settings& settings,
                                         const std::vector<at::Tensor>& constants,
                                         const std::string& name) {
  graph::Graph functional = graph.clone();
  passes::functionalise(functional);
  if (settings.counter_random && settings.backend != compile::Backend::kEager)
    passes::use_counter_random(functional);
  passes::eliminate_dead_code(functional);
  passes::Partition cut = passes::partition(functional);
  std::unique_ptr<Training> training(new Training());
  training->joint_ = joint;
  training->user_outputs_ =
      static_cast<size_t>(std::ranges::count(cut.forward.output_kinds(), graph::OutputKind::kUser));
  for (const auto& node : cut.forward.nodes()) training->draws_ |= node->op().effects.random;
  training->second_ = std::make_shared<SecondBackward>(cut.forward.clone(), joint, constants);
  // Among the inputs of the forward.
  std::vector<int> number_of_input;
  int numbers = 0;
  for (const graph::Input& input : cut.forward.inputs())
    number_of_input.push_back(input.kind == graph::InputKind::kNumber ? numbers++ : -1);
  for (size_t i = 0; i < cut.sources.size(); ++i)
    if (cut.backward.inputs()[i].kind == graph::InputKind::kNumber)
      cut.sources[i].index = number_of_input[cut.sources[i].index];
  training->backward_ = std::make_shared<Backward>(std::move(cut.backward), std::move(cut.sources),
                                                   settings, constants, name);
  graph = std::move(cut.forward);
  return training;
}

bool Training::has_history(size_t output) const {
  return std::ranges::find(joint_.tangent_of, static_cast<int>(output)) != joint_.tangent_of.end();
}

std::vector<at::Tensor> Training::take_kept(std::vector<at::Tensor>& outputs) const {
  std::vector<at::Tensor> kept(std::make_move_iterator(outputs.begin() + user_outputs_),
                               std::make_move_iterator(outputs.end()));
  outputs.resize(user_outputs_);
  return kept;
}

void Training::give_history(c10::TensorImpl* const* inputs, std::vector<at::Tensor>& outputs,
                            std::vector<at::Tensor> kept, std::span<const int64_t> symbols,
                            std::span<const double> numbers,
                            std::shared_ptr<const pytorch::GeneratorState> drawn_from) const {
  auto node = make_node<BackwardNode>();
  torch::autograd::edge_list edges;
  edges.reserve(joint_.gradient_of.size());
  for (const int input : joint_.gradient_of)
    edges.push_back(torch::autograd::impl::gradient_edge(borrow(inputs[input])));
  node->set_next_edges(std::move(edges));
  for (const int output : joint_.tangent_of) {
    at::Tensor& tensor = outputs[output];
    if (tensor.is_view()) tensor = without_base(tensor);
    torch::autograd::set_history(tensor, node);
  }
  node->backward = backward_;
  node->second = second_;
  node->symbols.assign(symbols.begin(), symbols.end());
  node->numbers.assign(numbers.begin(), numbers.end());
  node->drawn_from = std::move(drawn_from);
  node->saved.reserve(backward_->kept().size());
  for (const Source& source : backward_->kept()) {
    const auto index = static_cast<size_t>(source.index);
    if (source.kind == Source::Kind::kInput)
      node->saved.emplace_back(borrow(inputs[index]), /*is_output=*/false);
    else if (index < user_outputs_)
      node->saved.emplace_back(outputs[index], /*is_output=*/has_history(index));
    else
      node->saved.emplace_back(kept[index - user_outputs_], /*is_output=*/false);
  }
  node->inputs.reserve(second_->needed().size());
  for (const int input : second_->needed())
    node->inputs.emplace_back(borrow(inputs[input]), /*is_output=*/false);
}

}  // namespace braze::dispatch
