#include "trace/replay.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <unordered_map>

#include "pytorch/aten.h"
#include "trace/tracer.h"

namespace braze::trace {

namespace {

using graph::Argument;
using Values = std::unordered_map<const graph::Value*, at::Tensor>;

c10::OperatorHandle find_operator(const std::string& name) {
  const size_t first = name.find('.');
  const size_t second = name.find('.', first + 1);
  return c10::Dispatcher::singleton().findSchemaOrThrow(
      (name.substr(0, first) + "::" + name.substr(first + 1, second - first - 1)).c_str(),
      second == std::string::npos ? "" : name.substr(second + 1).c_str());
}

int64_t memory_format(graph::MemoryFormat format) {
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

// A boxed argument; `formal` tells where numbers stand for tensors and lists are optional.
struct Boxer {
  const Values& values;
  const c10::Argument& formal;
  std::span<const int64_t> symbols;

  int64_t number(const sym::Int& value) const { return sym::evaluate(value, symbols); }

  bool wants_tensor() const {
    c10::TypePtr type = formal.type();
    if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    return type->kind() == c10::TypeKind::TensorType;
  }
  c10::TypeKind element() const {
    c10::TypePtr type = formal.type();
    if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    return type->expectRef<c10::ListType>().getElementType()->kind();
  }

  // An undefined tensor, where the schema does not say that there may be none.
  c10::IValue operator()(graph::None) const {
    const bool is_tensor = formal.type()->kind() == c10::TypeKind::TensorType;
    return is_tensor ? c10::IValue(at::Tensor()) : c10::IValue();
  }
  c10::IValue operator()(graph::Value* value) const { return values.at(value); }
  c10::IValue operator()(const std::vector<graph::Value*>& list) const {
    c10::List<at::Tensor> result;
    for (const graph::Value* value : list) result.push_back(values.at(value));
    return result;
  }
  c10::IValue operator()(const graph::OptionalRefs<graph::Value*>& list) const {
    c10::List<std::optional<at::Tensor>> result;
    for (const auto& ref : list.refs)
      result.push_back(ref ? std::optional<at::Tensor>(values.at(*ref)) : std::nullopt);
    return result;
  }
  c10::IValue operator()(const sym::Int& value) const {
    if (wants_tensor()) return pytorch::tensor_of_number(number(value));
    return number(value);
  }
  c10::IValue operator()(double value) const {
    if (wants_tensor()) return pytorch::tensor_of_number(value);
    return value;
  }
  c10::IValue operator()(bool value) const {
    if (wants_tensor()) return pytorch::tensor_of_number(value);
    return value;
  }
  c10::IValue operator()(std::complex<double> value) const {
    const c10::complex<double> number(value.real(), value.imag());
    if (wants_tensor()) return pytorch::tensor_of_number(number);
    return number;
  }
  c10::IValue operator()(const std::string& value) const { return value; }
  c10::IValue operator()(const sym::Dims& list) const {
    if (element() == c10::TypeKind::NumberType) {
      c10::List<c10::IValue> numbers(c10::NumberType::get());
      for (const sym::Int& value : list) numbers.push_back(number(value));
      return numbers;
    }
    if (element() == c10::TypeKind::FloatType) {
      c10::List<double> result;
      for (const sym::Int& value : list) result.push_back(static_cast<double>(number(value)));
      return result;
    }
    c10::List<int64_t> result;
    for (const sym::Int& value : list) result.push_back(number(value));
    return result;
  }
  c10::IValue operator()(const std::vector<double>& list) const {
    if (element() == c10::TypeKind::NumberType) {
      c10::List<c10::IValue> numbers(c10::NumberType::get());
      for (double value : list) numbers.push_back(value);
      return numbers;
    }
    return c10::List<double>(list);
  }
  c10::IValue operator()(const std::vector<bool>& list) const {
    c10::List<bool> result;
    for (bool value : list) result.push_back(value);
    return result;
  }
  c10::IValue operator()(graph::DType dtype) const {
    return static_cast<int64_t>(scalar_type_of(dtype));
  }
  c10::IValue operator()(graph::Device device) const { return device_of(device); }
  c10::IValue operator()(graph::MemoryFormat format) const { return memory_format(format); }
  c10::IValue operator()(graph::Layout) const { return static_cast<int64_t>(at::kStrided); }
};

void check_metadata(const graph::Node& node, const graph::TensorType& traced,
                    const at::Tensor& tensor, std::span<const int64_t> symbols) {
  graph::TensorType expected = traced, got = type_of(tensor);
  for (sym::Dims* dims : {&expected.sizes, &expected.strides})
    for (sym::Int& dim : *dims) dim = sym::evaluate(dim, symbols);
  expected.offset = sym::evaluate(expected.offset, symbols);
  TORCH_CHECK(expected == got, node.op().name, ": traced as ", graph::to_string(expected), ", is ",
              graph::to_string(got));
}

void run_node(const graph::Node& node, Values& values, std::span<const int64_t> symbols,
              bool check) {
  const c10::OperatorHandle handle = find_operator(node.op().name);
  torch::jit::Stack stack;
  for (size_t i = 0; i < node.args().size(); ++i)
    stack.push_back(
        std::visit(Boxer{values, handle.schema().arguments()[i], symbols}, node.args()[i]));
  handle.callBoxed(stack);
  size_t next = 0;
  auto take = [&](const at::Tensor& tensor) {
    const graph::Value* value = node.results().at(next++);
    if (value == nullptr) return;
    values[value] = tensor;
    if (check) check_metadata(node, value->type(), tensor, symbols);
  };
  for (const c10::IValue& result : stack) {
    if (result.isTensor()) take(result.toTensor());
    if (result.isTensorList())
      for (const at::Tensor& tensor : result.toTensorVector()) take(tensor);
  }
}

}  // namespace

std::vector<at::Tensor> replay(const graph::Graph& graph, std::span<const at::Tensor> inputs,
                               std::span<const int64_t> symbols, bool check) {
  Values values;
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i].value] = inputs[i];
  for (const auto& node : graph.nodes()) run_node(*node, values, symbols, check);
  std::vector<at::Tensor> outputs;
  for (const graph::Value* output : graph.outputs()) outputs.push_back(values.at(output));
  return outputs;
}

}  // namespace braze::trace
