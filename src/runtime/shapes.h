// The numbers of a function as PyTorch takes them.
#pragma once

#include <ATen/core/Tensor.h>

#include "plan/binder.h"

namespace braze::runtime {

class Shapes {
 public:
  // Refers to both.
  Shapes(const plan::Binder& binder, const plan::Numbers& numbers)
      : binder_(binder), numbers_(numbers) {}

  c10::IntArrayRef sizes(plan::SlotId slot) const { return sizes_of_type(binder_.type_of(slot)); }
  c10::IntArrayRef strides(plan::SlotId slot) const {
    return strides_of_type(binder_.type_of(slot));
  }
  c10::IntArrayRef sizes_of_type(int32_t type) const {
    return {numbers_.dims.data() + binder_.first_dim(type), binder_.rank(type)};
  }
  c10::IntArrayRef strides_of_type(int32_t type) const {
    return {numbers_.dims.data() + binder_.first_dim(type) + binder_.rank(type),
            binder_.rank(type)};
  }
  int64_t number(sym::Int value) const { return binder_.number(value, numbers_); }

 private:
  const plan::Binder& binder_;
  const plan::Numbers& numbers_;
};

}  // namespace braze::runtime
