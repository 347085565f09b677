#include "trace/changed_leaves.h"

namespace braze::trace {

ChangedLeaves::~ChangedLeaves() {
  for (size_t i = before_.size(); i-- > 0;)
    before_[i].first.unsafeGetTensorImpl()->set_requires_grad(before_[i].second);
}

void ChangedLeaves::set_requires_grad(const at::Tensor& leaf, bool value) {
  any_ = true;
  before_.emplace_back(leaf, leaf.requires_grad());
  leaf.unsafeGetTensorImpl()->set_requires_grad(value);
}

}  // namespace braze::trace
