#include "trace/cycles.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_set>

#include "pytorch/nodes.h"
#include "trace/fake_tensor.h"

namespace braze::trace {

using torch::autograd::Node;

void HistoryCycles::note(const at::Tensor& result) {
  if (!result.requires_grad() || !result.is_view()) return;
  const auto* meta = torch::autograd::impl::get_view_autograd_meta(result);
  if (!meta || !meta->has_bw_view()) return;
  const at::Tensor& base = meta->get_backward_view().base_;
  if (!base.defined() || !as_fake(base)) return;
  if (dynamic_cast<torch::autograd::CopySlices*>(base.grad_fn().get()))
    bases_.emplace_back(base.getIntrusivePtr());
}

// Gives up what the nodes of the trace that lead to a base have saved.
HistoryCycles::~HistoryCycles() {
  std::unordered_set<Node*> known;
  std::vector<pytorch::NodePtr> open;
  const auto meet = [&](const pytorch::NodePtr& node) {
    if (node && node->sequence_nr() >= begin_ && known.insert(node.get()).second)
      open.push_back(node);
  };
  std::vector<at::Tensor> alive;
  for (const Weak& weak : bases_)
    if (auto base = weak.lock()) alive.emplace_back(std::move(base));
  for (const at::Tensor& base : alive) meet(base.grad_fn());
  while (!open.empty()) {
    const pytorch::NodePtr node = std::move(open.back());
    open.pop_back();
    node->release_variables();
    for (const torch::autograd::Edge& edge : node->next_edges()) meet(edge.function);
  }
}

}  // namespace braze::trace
