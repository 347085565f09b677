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

const ShapeEntry* find_shape_function(const std::string& name) {
  static const std::unordered_map<std::string, ShapeEntry> table = [] {
    std::unordered_map<std::string, ShapeEntry> entries;
    for (auto family : {assembly_shapes(), normalisation_shapes(), convolution_shapes(),
                        attention_shapes(), indexing_shapes(), pointwise_shapes(), matrix_shapes(),
                        view_shapes(), reduction_shapes(), pooling_shapes(), ordering_shapes(),
                        scatter_shapes(), recurrent_shapes(), random_shapes()})
      for (const NamedShape& shape : family)
        entries.emplace(std::string("aten::") + shape.name,
                        ShapeEntry{shape.function, shape.for_symbols_only});
    return entries;
  }();
  auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace braze::trace
