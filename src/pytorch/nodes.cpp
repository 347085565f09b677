#include "pytorch/nodes.h"

// The second one has functions of the names of the first one's, which would find them.
// clang-format off
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/LegacyBatchedTensorImpl.h>
// clang-format on
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <set>

namespace braze::pytorch {
namespace {

class Identity final : public torch::autograd::Node {
 public:
  std::string name() const override { return "BrazeIdentity"; }

 protected:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& given) override {
    return std::move(given);
  }
};

// Of vmap, the old one and the new one: what has the history.
at::Tensor without_batches(at::Tensor tensor) {
  while (true) {
    if (const auto* batch = at::functorch::maybeGetBatchedImpl(tensor))
      tensor = at::Tensor(batch->value());
    else if (const auto* old = at::maybeGetBatchedImpl(tensor))
      tensor = at::Tensor(old->value());
    else
      return tensor;
  }
}

struct LetGo {
  torch::autograd::edge_list edges;
  std::shared_ptr<void> kept;
};
thread_local std::vector<LetGo>* letting_go = nullptr;

}  // namespace

void let_go(torch::autograd::edge_list& edges, std::shared_ptr<void> kept) {
  if (letting_go) {
    letting_go->push_back({std::exchange(edges, {}), std::move(kept)});
    return;
  }
  std::vector<LetGo> open;
  letting_go = &open;
  open.push_back({std::exchange(edges, {}), std::move(kept)});
  while (!open.empty()) {
    LetGo last = std::move(open.back());
    open.pop_back();
    last.kept.reset();  // first: what was kept may have the same nodes in its history
    last.edges.clear();
  }
  letting_go = nullptr;
}

bool has_hooks(const c10::TensorImpl& leaf) {
  using torch::autograd::AutogradMeta;
  const auto* meta =
      static_cast<const AutogradMeta*>(const_cast<c10::TensorImpl&>(leaf).autograd_meta());
  if (meta == nullptr) return false;
  if (meta->retains_grad_) return true;  // a hook of its own
  if (!meta->hooks_.empty() || meta->post_acc_grad_hooks_) return true;
  const NodePtr accumulator = meta->grad_accumulator_.lock();
  return accumulator && (!accumulator->pre_hooks().empty() || !accumulator->post_hooks().empty());
}

bool has_tangent(const c10::TensorImpl& tensor) {
  using torch::autograd::AutogradMeta;
  const auto* meta =
      static_cast<const AutogradMeta*>(const_cast<c10::TensorImpl&>(tensor).autograd_meta());
  return meta != nullptr && meta->fw_grad_ && !meta->fw_grad_->empty();
}

void give_identity(const at::Tensor& tensor, const at::Tensor& history) {
  NodePtr node = make_node<Identity>();
  node->set_next_edges({torch::autograd::impl::gradient_edge(history)});
  torch::autograd::set_history(tensor, node);
}

std::vector<std::vector<torch::autograd::Edge*>> edges_to(
    std::span<const torch::autograd::Edge> targets, std::span<const at::Tensor> tensors,
    uint64_t begin) {
  std::vector<std::vector<torch::autograd::Edge*>> found(targets.size());
  std::vector<torch::autograd::Node*> open;
  for (at::Tensor tensor : tensors) {
    if (!tensor.defined()) continue;
    tensor = without_batches(std::move(tensor));
    if (tensor.grad_fn()) open.push_back(tensor.grad_fn().get());
  }
  std::set<const torch::autograd::Node*> seen;
  while (!open.empty()) {
    torch::autograd::Node* node = open.back();
    open.pop_back();
    if (node->sequence_nr() < begin || !seen.insert(node).second) continue;
    for (torch::autograd::Edge& edge : node->next_edges()) {
      if (!edge.is_valid()) continue;
      for (size_t i = 0; i < targets.size(); ++i)
        if (edge == targets[i]) found[i].push_back(&edge);
      open.push_back(edge.function.get());
    }
  }
  return found;
}

at::Tensor with_history(const at::Tensor& value, const at::Tensor& history) {
  at::Tensor result = value.detach();
  if (history.requires_grad()) give_identity(result, history);
  return result;
}

}  // namespace braze::pytorch
