#include "pytorch/boxed_arguments.h"

#include "base/error.h"
#include "pytorch/aten.h"

namespace braze::pytorch {
namespace {

c10::TypePtr without_optional(c10::TypePtr type) {
  if (auto optional = type->cast<c10::OptionalType>()) return optional->getElementType();
  return type;
}

// What a list for the parameter holds; null where it takes no list.
c10::TypePtr element_type(const c10::Argument& formal) {
  const auto list = without_optional(formal.type())->cast<c10::ListType>();
  return list ? list->getElementType() : nullptr;
}

bool holds(const c10::TypePtr& element, c10::TypeKind kind) {
  return element && element->kind() == kind;
}

bool holds_optional_numbers(const c10::TypePtr& element) {
  const auto optional = element ? element->cast<c10::OptionalType>() : nullptr;
  return optional && optional->getElementType()->kind() == c10::TypeKind::NumberType;
}

template <class Number>
c10::IValue list_of_scalars(const std::vector<Number>& numbers) {
  c10::List<c10::IValue> list(c10::NumberType::get());
  for (Number number : numbers) list.push_back(number);
  return list;
}

}  // namespace

// An undefined tensor, where the schema does not say that there may be none.
c10::IValue boxed_none(const c10::Argument& formal) {
  const bool is_tensor = formal.type()->kind() == c10::TypeKind::TensorType;
  return is_tensor ? c10::IValue(at::Tensor()) : c10::IValue();
}

// `torch.sub(2, x)`
c10::IValue boxed_number(const c10::Scalar& number, const c10::Argument& formal) {
  if (without_optional(formal.type())->kind() == c10::TypeKind::TensorType)
    return tensor_of_number(number);
  return number;
}

c10::IValue boxed_list(const std::vector<int64_t>& numbers, const c10::Argument& formal) {
  using c10::TypeKind;
  const c10::TypePtr element = element_type(formal);
  if (holds(element, TypeKind::NumberType)) return list_of_scalars(numbers);
  if (holds(element, TypeKind::FloatType)) {
    c10::List<double> list;
    for (int64_t number : numbers) list.push_back(static_cast<double>(number));
    return list;
  }
  if (numbers.empty() && holds(element, TypeKind::BoolType)) return c10::List<bool>();
  if (numbers.empty() && holds(element, TypeKind::TensorType)) return c10::List<at::Tensor>();
  if (numbers.empty() && holds_optional_numbers(element))
    return c10::List<std::optional<at::Scalar>>();
  return c10::List<int64_t>(c10::IntArrayRef(numbers));
}

c10::IValue boxed_list(const std::vector<double>& numbers, const c10::Argument& formal) {
  if (holds(element_type(formal), c10::TypeKind::NumberType)) return list_of_scalars(numbers);
  return c10::List<double>(numbers);
}

c10::IValue boxed_list(const std::vector<bool>& flags) {
  c10::List<bool> list;
  for (bool flag : flags) list.push_back(flag);
  return list;
}

int64_t boxed_format(graph::MemoryFormat format) {
  switch (format) {
    case graph::MemoryFormat::kContiguous:
      return static_cast<int64_t>(at::MemoryFormat::Contiguous);
    case graph::MemoryFormat::kPreserve:
      return static_cast<int64_t>(at::MemoryFormat::Preserve);
    case graph::MemoryFormat::kChannelsLast:
      return static_cast<int64_t>(at::MemoryFormat::ChannelsLast);
    case graph::MemoryFormat::kChannelsLast3d:
      return static_cast<int64_t>(at::MemoryFormat::ChannelsLast3d);
  }
  BRAZE_UNREACHABLE("memory format");
}

}  // namespace braze::pytorch
