#include "pytorch/nodes.h"

#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

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

}  // namespace

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

at::Tensor with_history(const at::Tensor& value, const at::Tensor& history) {
  at::Tensor result = value.detach();
  if (history.requires_grad()) give_identity(result, history);
  return result;
}

}  // namespace braze::pytorch
