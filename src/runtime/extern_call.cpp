#include "runtime/extern_call.h"

#include <ATen/ops/clone_ops.h>
#include <ATen/ops/copy_ops.h>

#include <algorithm>

#include "pytorch/aten.h"
#include "runtime/memory.h"

namespace braze::runtime {
namespace {

using plan::SlotId;

int64_t memory_format_of(graph::MemoryFormat format) {
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

// "aten.add.Tensor" -> ("aten::add", "Tensor")
std::pair<std::string, std::string> split_name(const std::string& name) {
  size_t first = name.find('.');
  BRAZE_CHECK(first != std::string::npos, name);
  size_t second = name.find('.', first + 1);
  std::string base =
      name.substr(0, first) +
      "::" + name.substr(first + 1, second == std::string::npos ? second : second - first - 1);
  return {base, second == std::string::npos ? "" : name.substr(second + 1)};
}

// The out= overload that takes the same arguments and one more tensor, if there is one.
std::optional<c10::OperatorHandle> find_out_overload(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  if (schema.returns().size() != 1) return std::nullopt;
  const std::string& overload = schema.overload_name();
  for (const std::string& candidate : overload.empty()
                                          ? std::vector<std::string>{"out"}
                                          : std::vector<std::string>{"out", overload + "_out"}) {
    auto found = c10::Dispatcher::singleton().findSchema({schema.name(), candidate});
    if (!found) continue;
    const auto& args = found->schema().arguments();
    const auto& wanted = schema.arguments();
    if (args.size() != wanted.size() + 1 || !args.back().is_out()) continue;
    bool same = true;
    for (size_t i = 0; i < wanted.size(); ++i)
      same = same && args[i].name() == wanted[i].name() && *args[i].type() == *wanted[i].type();
    if (same) return found;
  }
  return std::nullopt;
}

bool wants_list_of(const c10::Argument& argument, c10::TypeKind element) {
  auto type = argument.type();
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  auto list = type->cast<c10::ListType>();
  if (!list) return false;
  auto kind = list->getElementType()->kind();
  return kind == element ||
         (element == c10::TypeKind::IntType && kind == c10::TypeKind::SymIntType);
}

bool takes_tensor(const c10::Argument& argument) {
  auto type = argument.type();
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return type->kind() == c10::TypeKind::TensorType;
}

bool wants_optional_numbers(const c10::Argument& argument) {
  auto list = argument.type()->cast<c10::ListType>();
  auto element = list ? list->getElementType()->cast<c10::OptionalType>() : nullptr;
  return element && element->getElementType()->kind() == c10::TypeKind::NumberType;
}

c10::IValue scalar_list(const std::vector<int64_t>& values, const c10::Argument& argument) {
  if (wants_list_of(argument, c10::TypeKind::FloatType)) {  // an empty list has no type of its own
    c10::List<double> list;
    for (int64_t value : values) list.push_back(static_cast<double>(value));
    return list;
  }
  if (wants_list_of(argument, c10::TypeKind::BoolType) && values.empty()) return c10::List<bool>();
  if (wants_list_of(argument, c10::TypeKind::TensorType) && values.empty())
    return c10::List<at::Tensor>();
  if (wants_optional_numbers(argument) && values.empty())
    return c10::List<std::optional<at::Scalar>>();
  return c10::List<int64_t>(c10::IntArrayRef(values));
}

bool is_symbolic(const plan::Argument& argument) {
  if (auto* value = std::get_if<sym::Int>(&argument)) return !value->is_constant();
  auto* list = std::get_if<std::vector<sym::Int>>(&argument);
  return list && std::any_of(list->begin(), list->end(),
                             [](sym::Int value) { return !value.is_constant(); });
}

}  // namespace

ExternCall::ExternCall(const plan::Function& function, const plan::ExternStep& step)
    : function_(&function), step_(&step), op_([&] {
        auto [base, overload] = split_name(step.op);
        auto found = c10::Dispatcher::singleton().findSchema({base, overload});
        if (!found) throw UserError("this PyTorch has no operator " + step.op);
        return *found;
      }()) {
  schema_ = &op_.schema();
  gives_views_ = std::ranges::any_of(schema_->returns(), [](const c10::Argument& result) {
    return result.alias_info() != nullptr;
  });
  const auto& arguments = schema_->arguments();
  BRAZE_CHECK(step.args.size() <= arguments.size(), step.op);
  int position = 0;
  for (const plan::Argument& argument : step.args) {
    note_tensors(argument, position);
    if (is_symbolic(argument)) symbolic_.push_back(position);
    template_.push_back(is_symbolic(argument) ? c10::IValue()
                                              : converted(argument, position,
                                                          [](sym::Int v) { return v.constant(); }));
    ++position;
  }
  for (const TensorPosition& tensor : positions_) {
    const c10::AliasInfo* alias = arguments[tensor.argument].alias_info();
    if (alias && alias->isWrite()) written_.push_back(tensor.slot);
  }
  for (size_t i = step.args.size(); i < arguments.size(); ++i) {
    BRAZE_CHECK(arguments[i].default_value().has_value(), step.op, " lacks ", arguments[i].name());
    template_.push_back(*arguments[i].default_value());
  }
  if (step.results.size() == 1 && step.results[0] >= 0) {
    auto kind = function.slots[step.results[0]].kind;
    if (kind == plan::SlotKind::kArena || kind == plan::SlotKind::kOutput)
      if (auto out = find_out_overload(op_)) {
        op_ = *out;
        uses_out_ = true;
      }
  }
}

std::vector<c10::IValue> ExternCall::symbolic_arguments(const Shapes& shapes) const {
  std::vector<c10::IValue> result;
  for (int position : symbolic_)
    result.push_back(converted(step_->args[position], position,
                               [&](sym::Int value) { return shapes.number(value); }));
  return result;
}

void ExternCall::note_tensors(const plan::Argument& argument, int position) {
  if (auto* slot = std::get_if<SlotId>(&argument)) positions_.push_back({position, -1, *slot});
  if (auto* list = std::get_if<std::vector<SlotId>>(&argument))
    for (size_t i = 0; i < list->size(); ++i)
      positions_.push_back({position, static_cast<int>(i), (*list)[i]});
  if (auto* list = std::get_if<graph::OptionalRefs<SlotId>>(&argument))
    for (size_t i = 0; i < list->refs.size(); ++i)
      if (list->refs[i]) positions_.push_back({position, static_cast<int>(i), *list->refs[i]});
}

// Tensors are missing in the value.
c10::IValue ExternCall::converted(const plan::Argument& argument, int position,
                                  const NumberOf& number) const {
  const c10::Argument& formal = schema_->arguments()[position];
  c10::IValue result = std::visit(
      [&](const auto& value) -> c10::IValue {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, graph::None>) {
          // An undefined tensor, where the schema does not say that there may be none.
          const bool is_tensor = formal.type()->kind() == c10::TypeKind::TensorType;
          return is_tensor ? c10::IValue(at::Tensor()) : c10::IValue();
        } else if constexpr (std::is_same_v<T, SlotId>) {
          return {};
        } else if constexpr (std::is_same_v<T, std::vector<SlotId>>) {
          c10::List<at::Tensor> list;
          list.resize(value.size());
          return list;
        } else if constexpr (std::is_same_v<T, graph::OptionalRefs<SlotId>>) {
          c10::List<std::optional<at::Tensor>> list;
          list.resize(value.refs.size());
          return list;
        } else if constexpr (std::is_same_v<T, sym::Int>) {
          return number(value);
        } else if constexpr (std::is_same_v<T, std::complex<double>>) {
          return c10::complex<double>(value.real(), value.imag());
        } else if constexpr (std::is_same_v<T, std::vector<sym::Int>>) {
          std::vector<int64_t> numbers;
          for (sym::Int element : value) numbers.push_back(number(element));
          return scalar_list(numbers, formal);
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          return c10::List<double>(value);
        } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
          c10::List<bool> list;
          for (bool element : value) list.push_back(element);
          return list;
        } else if constexpr (std::is_same_v<T, graph::DType>) {
          return static_cast<int64_t>(scalar_type(value));
        } else if constexpr (std::is_same_v<T, graph::Device>) {
          return device_of(value);
        } else if constexpr (std::is_same_v<T, graph::MemoryFormat>) {
          return memory_format_of(value);
        } else if constexpr (std::is_same_v<T, graph::Layout>) {
          return static_cast<int64_t>(at::kStrided);
        } else {
          return value;
        }
      },
      argument);
  if (takes_tensor(formal) && result.isScalar())  // `torch.sub(2, x)`
    result = pytorch::tensor_of_number(result.toScalar());
  return result;
}

void ExternCall::run(std::vector<at::Tensor>& tensors,
                     std::span<const c10::IValue> symbolic_arguments, const Shapes& shapes,
                     bool check) const {
  torch::jit::Stack stack;
  stack.reserve(template_.size() + 1);
  for (const c10::IValue& value : template_) {
    // Lists are shared objects; those with tensors are filled anew for each call.
    if (value.isTensorList())
      stack.emplace_back(value.toTensorList().copy());
    else if (value.isOptionalTensorList())
      stack.emplace_back(value.toOptionalTensorList().copy());
    else
      stack.push_back(value);
  }
  for (size_t i = 0; i < symbolic_.size(); ++i) stack[symbolic_[i]] = symbolic_arguments[i];
  for (const TensorPosition& position : positions_) {
    const at::Tensor& tensor = tensors[position.slot];
    c10::IValue& value = stack[position.argument];
    if (position.element < 0)
      value = tensor;
    else if (value.isTensorList())
      value.toTensorList().set(position.element, tensor);
    else
      value.toOptionalTensorList().set(position.element, tensor);
  }
  if (uses_out_) stack.emplace_back(tensors[step_->results[0]]);
  op_.callBoxed(stack);
  if (uses_out_) {
    if (check) store(stack[0].toTensor(), step_->results[0], tensors, shapes, true);
    return;
  }
  size_t next = 0;
  auto take = [&](const at::Tensor& result) {
    if (next < step_->results.size()) {
      plan::SlotId slot = step_->results[next];
      if (slot >= 0) store(result, slot, tensors, shapes, check);
    }
    ++next;
  };
  for (const c10::IValue& value : stack) {
    if (value.isTensor())
      take(value.toTensor());
    else if (value.isTensorList())
      for (const at::Tensor& element : value.toTensorVector()) take(element);
  }
}

void ExternCall::check_result(const at::Tensor& result, SlotId slot, const Shapes& shapes) const {
  const graph::TensorType& type = function_->slots[slot].type;
  bool same = result.defined() && result.scalar_type() == scalar_type(type.dtype) &&
              result.sizes() == shapes.sizes(slot) && result.device() == device_of(type.device);
  for (int64_t i = 0; same && i < result.dim(); ++i)
    same =
        result.size(i) <= 1 || result.numel() == 0 || result.stride(i) == shapes.strides(slot)[i];
  if (same) return;
  std::string got = "undefined";
  if (result.defined())
    got = detail::concat(result.scalar_type(), result.sizes(), "{", result.strides(), "} on ",
                         result.device());
  throw InternalError(__FILE__, __LINE__,
                      detail::concat("extern call ", step_->op, " gave ", got,
                                     " where the trace expected ", graph::to_string(type), " as ",
                                     shapes.sizes(slot), "{", shapes.strides(slot), "}"));
}

bool ExternCall::is_operand(const at::Tensor& result,
                            const std::vector<at::Tensor>& tensors) const {
  if (!result.defined()) return false;
  return std::ranges::any_of(positions_, [&](const TensorPosition& position) {
    const at::Tensor& operand = tensors[position.slot];
    return operand.defined() && operand.is_alias_of(result);
  });
}

void ExternCall::store(const at::Tensor& result, SlotId slot, std::vector<at::Tensor>& tensors,
                       const Shapes& shapes, bool check) const {
  if (check) check_result(result, slot, shapes);
  switch (function_->slots[slot].kind) {
    case plan::SlotKind::kArena:
    case plan::SlotKind::kOutput:
      if (!tensors[slot].is_same(result)) at::_ops::copy_::call(tensors[slot], result, false);
      break;
    case plan::SlotKind::kInput:  // in-place ops return their argument
      break;
    case plan::SlotKind::kExtern:
      // Some operators give their operand back and do not say so, such as `conj_physical` of real
      // numbers; the plan may write to the operand's memory while the result is still read.
      tensors[slot] =
          !gives_views_ && is_operand(result, tensors) ? at::_ops::clone::call(result, {}) : result;
      break;
    case plan::SlotKind::kView:
      tensors[slot] = result;
      break;
  }
}

}  // namespace braze::runtime
