#include "trace/shapes/shapes.h"

#include <unordered_map>

#include "trace/fake_tensor.h"
#include "trace/shapes/families.h"

namespace braze::trace {

at::Tensor ShapeCall::tensor(int i) const {
  const c10::IValue& value = (*this)[i];
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

bool ShapeCall::is_number(int i) const {
  const at::Tensor value = tensor(i);
  return value.defined() && value.unsafeGetTensorImpl()->is_wrapped_number() && !as_fake(value);
}

ShapeFunction find_shape_function(const std::string& name) {
  static const std::unordered_map<std::string, ShapeFunction> table = [] {
    std::unordered_map<std::string, ShapeFunction> entries;
    for (auto family :
         {convolution_shapes(), attention_shapes(), write_shapes(), recurrent_shapes()})
      for (const NamedShape& shape : family)
        entries.emplace(std::string("aten::") + shape.name, shape.function);
    return entries;
  }();
  auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace braze::trace
