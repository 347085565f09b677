// `requires_grad` of tensors from outside, where the traced code changes it: autograd looks at the
// tensors themselves, so it is changed while tracing and put back at the end.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace braze::trace {

class ChangedLeaves {
 public:
  ChangedLeaves() = default;
  ~ChangedLeaves();
  ChangedLeaves(const ChangedLeaves&) = delete;

  // A leaf, no view.
  void set_requires_grad(const at::Tensor& leaf, bool value);
  // A result of the trace is one without a history from here on.
  void note_detached() { any_ = true; }
  bool any() const { return any_; }

 private:
  std::vector<std::pair<at::Tensor, bool>> before_;  // in the order of the changes
  bool any_ = false;
};

}  // namespace braze::trace
