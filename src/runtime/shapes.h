// The numbers of a plan as PyTorch takes them.
#pragma once

#include <ATen/core/Tensor.h>

#include "plan/binder.h"

namespace braze::runtime {

class Shapes {
 public:
  // Refers to all of them.
  Shapes(const plan::Plan& plan, const plan::Binder& binder, const plan::Numbers& numbers)
      : plan_(plan), binder_(binder), numbers_(numbers) {}

  c10::IntArrayRef sizes(plan::SlotId slot) const {
    return {numbers_.dims.data() + binder_.first_dim(slot), rank(slot)};
  }
  c10::IntArrayRef strides(plan::SlotId slot) const {
    return {numbers_.dims.data() + binder_.first_dim(slot) + rank(slot), rank(slot)};
  }
  int64_t number(sym::Int value) const { return binder_.number(value, numbers_); }

 private:
  size_t rank(plan::SlotId slot) const { return plan_.slots[slot].type.sizes.size(); }

  const plan::Plan& plan_;
  const plan::Binder& binder_;
  const plan::Numbers& numbers_;
};

}  // namespace braze::runtime
