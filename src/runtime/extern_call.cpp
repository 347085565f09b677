#include "runtime/extern_call.h"

#include <ATen/core/enum_tag.h>
#include <ATen/ops/clone_ops.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/empty_strided_ops.h>

#include <algorithm>
#include <optional>

#include "base/fork_mutex.h"
#include "base/options.h"
#include "pytorch/boxed_arguments.h"
#include "pytorch/operators.h"
#include "runtime/memory.h"
#include "runtime/operator_memory.h"

namespace braze::runtime {
namespace {

using plan::SlotId;

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

bool is_symbolic(const plan::Argument& argument) {
  if (auto* value = std::get_if<sym::Int>(&argument)) return !value->is_constant();
  auto* list = std::get_if<std::vector<sym::Int>>(&argument);
  return list && std::any_of(list->begin(), list->end(),
                             [](sym::Int value) { return !value.is_constant(); });
}

}  // namespace

ExternCall::ExternCall(const plan::Function& function, const plan::ExternStep& step)
    : function_(&function), step_(&step), op_([&] {
        const auto found = pytorch::find_operator(step.op);
        if (!found) throw UserError("this PyTorch has no operator " + step.op);
        return *found;
      }()) {
  schema_ = &op_.schema();
  is_pytorchs_ = step.op.starts_with("aten.");
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
  return pytorch::boxed(
      argument, schema_->arguments()[position], [](SlotId) { return at::Tensor(); }, number);
}

void ExternCall::run(std::vector<at::Tensor>& tensors,
                     std::span<const c10::IValue> symbolic_arguments, const Shapes& shapes,
                     ResultCheck check) const {
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
  {
    std::optional<NotWhole> python;  // which may be what waits for the GIL
    if (check == ResultCheck::kAll && !is_pytorchs_) python.emplace();
    std::optional<OperatorMemory> memory;
    if (is_pytorchs_) memory.emplace();
    op_.callBoxed(stack);
  }
  if (uses_out_) {
    if (check == ResultCheck::kAll)
      store(stack[0].toTensor(), step_->results[0], tensors, shapes, check);
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

bool ExternCall::has_layout(const at::Tensor& result, SlotId slot, const Shapes& shapes) const {
  const c10::IntArrayRef strides = shapes.strides(slot);
  if (!result.defined() || result.dim() != static_cast<int64_t>(strides.size())) return true;
  for (int64_t i = 0; i < result.dim(); ++i)
    if (result.size(i) > 1 && result.stride(i) != strides[i]) return result.numel() == 0;
  return true;
}

void ExternCall::check_result(const at::Tensor& result, SlotId slot, const Shapes& shapes) const {
  const graph::TensorType& type = function_->slots[slot].type;
  // Another layout than the trace's is put right, but of what shares memory, and where the house
  // looks at itself.
#ifdef BRAZE_CHECKS
  const bool forgives = false;
#else
  const bool forgives =
      function_->slots[slot].kind == plan::SlotKind::kExtern && !gives_views_ && !options().verify;
#endif
  if (result.defined() && result.scalar_type() == pytorch::scalar_type_of(type.dtype) &&
      result.sizes() == shapes.sizes(slot) && result.device() == pytorch::device_of(type.device) &&
      (forgives || has_layout(result, slot, shapes)))
    return;
  std::string got = "undefined";
  if (result.defined())
    got = detail::concat(result.scalar_type(), result.sizes(), "{", result.strides(), "} on ",
                         result.device());
  throw InternalError(__FILE__, __LINE__,
                      detail::concat("extern call ", step_->op, " gave ", got,
                                     " where the trace expected ", graph::to_string(type), " as ",
                                     shapes.sizes(slot), "{", shapes.strides(slot), "}"));
}

// Kernels read it by the strides of the trace. PyTorch's operators may choose a layout by what the
// trace does not see, such as the algorithm that a GPU's library picks.
at::Tensor ExternCall::as_traced(const at::Tensor& result, SlotId slot,
                                 const Shapes& shapes) const {
  at::Tensor traced = at::_ops::empty_strided::call(
      c10::fromIntArrayRefSlow(shapes.sizes(slot)), c10::fromIntArrayRefSlow(shapes.strides(slot)),
      result.scalar_type(), std::nullopt, result.device(), std::nullopt);
  return at::_ops::copy_::call(traced, result, false);
}

std::optional<double> ExternCall::number_named(std::string_view name) const {
  const auto& arguments = schema_->arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() != name) continue;
    if (i < template_.size())
      return template_[i].isDouble() ? std::optional(template_[i].toDouble()) : std::nullopt;
    if (const auto& value = arguments[i].default_value(); value && value->isDouble())
      return value->toDouble();
  }
  return std::nullopt;
}

bool ExternCall::depends_on_data() const {
  return op_.hasTag(at::Tag::data_dependent_output) || op_.hasTag(at::Tag::dynamic_output_shape);
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
                       const Shapes& shapes, ResultCheck check) const {
  if (check == ResultCheck::kAll) check_result(result, slot, shapes);
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
      tensors[slot] = result;
      if (gives_views_) break;
      if (check != ResultCheck::kNone && !has_layout(result, slot, shapes))
        tensors[slot] = as_traced(result, slot, shapes);
      else if (is_operand(result, tensors))
        tensors[slot] = at::_ops::clone::call(result, {});
      break;
    case plan::SlotKind::kView:
      tensors[slot] = result;
      break;
  }
}

}  // namespace braze::runtime
