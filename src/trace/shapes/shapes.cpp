#include "trace/shapes/shapes.h"

#include "trace/fake_tensor.h"

namespace braze::trace {

at::Tensor ShapeCall::tensor(int i) const {
  const c10::IValue& value = (*this)[i];
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

bool ShapeCall::is_number(int i) const {
  const at::Tensor value = tensor(i);
  return value.defined() && value.unsafeGetTensorImpl()->is_wrapped_number() && !as_fake(value);
}

}  // namespace braze::trace
