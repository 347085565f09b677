// Arguments of a call: PyTorch's boxed values to the graph's, by the operator's schema.
#include <ATen/core/ivalue.h>

#include "torch_python/objects.h"
#include "trace/break.h"
#include "trace/metadata.h"
#include "trace/recorder.h"
#include "trace/sym_node.h"

namespace braze::trace {
namespace {

using graph::Argument;

bool is_number(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_wrapped_number() && !as_fake(tensor);
}

Argument number_of(const c10::Scalar& scalar) {
  if (scalar.isBoolean()) return scalar.toBool();
  if (scalar.isSymInt() || scalar.isIntegral(false)) return from_symint(scalar.toSymInt());
  if (scalar.isComplex()) {
    const c10::complex<double> value = scalar.toComplexDouble();
    return std::complex<double>(value.real(), value.imag());
  }
  return scalar.toDouble();
}

// The number in the tensor that PyTorch's argument parser makes of a torch.SymInt.
constexpr int64_t kStandsForSymbol = 7777777;

std::optional<sym::Int> symbol_in(const at::Tensor& tensor) {
  if (tensor.scalar_type() != at::kLong ||
      *static_cast<const int64_t*>(tensor.const_data_ptr()) != kStandsForSymbol)
    return std::nullopt;
  const std::optional<c10::SymInt> kept = torch_python::symint_kept_by(tensor);
  if (!kept) return std::nullopt;
  return from_symint(*kept);
}

// The Python number that a 0-dim tensor was made of.
Argument number_in(const at::Tensor& tensor) {
  const void* data = tensor.const_data_ptr();
  switch (tensor.scalar_type()) {
    case at::kBool:
      return *static_cast<const bool*>(data);
    case at::kLong:
      if (std::optional<sym::Int> symbol = symbol_in(tensor)) return *symbol;
      return sym::Int(*static_cast<const int64_t*>(data));
    case at::kDouble:
      return *static_cast<const double*>(data);
    case at::kFloat:
      return static_cast<double>(*static_cast<const float*>(data));
    case at::kComplexDouble: {
      auto value = *static_cast<const c10::complex<double>*>(data);
      return std::complex<double>(value.real(), value.imag());
    }
    case at::kComplexFloat: {
      auto value = *static_cast<const c10::complex<float>*>(data);
      return std::complex<double>(value.real(), value.imag());
    }
    default:
      BRAZE_UNREACHABLE("a number of type ", c10::toString(tensor.scalar_type()));
  }
}

std::optional<graph::MemoryFormat> memory_format_of(at::MemoryFormat format) {
  switch (format) {
    case at::MemoryFormat::Contiguous:
      return graph::MemoryFormat::kContiguous;
    case at::MemoryFormat::Preserve:
      return graph::MemoryFormat::kPreserve;
    case at::MemoryFormat::ChannelsLast:
      return graph::MemoryFormat::kChannelsLast;
    case at::MemoryFormat::ChannelsLast3d:
      return graph::MemoryFormat::kChannelsLast3d;
    default:
      return std::nullopt;
  }
}

}  // namespace

void Recorder::take_arguments() {
  const int count = static_cast<int>(info_.arguments.size());
  arguments_.reserve(count);
  operands_.reserve(4);
  for (int i = 0; i < count; ++i) arguments_.push_back(take_argument(i));
  if (constant_)
    constant_call_.assign(stack_.begin() + static_cast<std::ptrdiff_t>(begin_), stack_.end());
}

namespace {

// Plain tensors that kernels for metadata make are on "meta".
graph::TensorType type_of_nested(const at::Tensor& tensor) {
  const FakeTensorImpl* fake = as_fake(tensor);
  graph::TensorType type;
  type.dtype = dtype_of(tensor.scalar_type());
  if (fake) type.device = graph_device(fake->fake_device());
  type.sizes = from_symints(tensor.sym_sizes());
  type.strides = from_symints(tensor.sym_strides());
  type.offset = from_symint(tensor.sym_storage_offset());
  return type;
}

// Nothing for what no graph holds, and for what only a call of the user's has.
std::optional<Argument> nested_argument(ArgumentKind kind, const c10::IValue& value,
                                        std::deque<graph::Value>& values) {
  if (value.isNone()) return graph::None{};
  switch (kind) {
    case ArgumentKind::kTensor: {
      const at::Tensor& tensor = value.toTensor();
      if (!tensor.defined()) return graph::None{};
      if (is_number(tensor)) return number_in(tensor);
      if (!try_dtype_of(tensor.scalar_type())) return std::nullopt;
      values.emplace_back().set_type(type_of_nested(tensor));
      return &values.back();
    }
    case ArgumentKind::kInt:
      return value.isSymInt() ? from_symint(value.toSymInt()) : sym::Int(value.toInt());
    case ArgumentKind::kFloat:
      if (!value.isDouble()) return std::nullopt;
      return value.toDouble();
    case ArgumentKind::kBool:
      if (!value.isBool()) return std::nullopt;
      return value.toBool();
    case ArgumentKind::kScalar:
      return number_of(value.toScalar());
    case ArgumentKind::kInts: {
      if (value.isSymIntList()) {
        const std::vector<c10::SymInt> dims = value.toSymIntVector();
        return from_symints(dims);
      }
      const std::vector<int64_t> list = value.toIntVector();
      return sym::Dims(list.begin(), list.end());
    }
    case ArgumentKind::kDType:
      if (const auto dtype = try_dtype_of(static_cast<at::ScalarType>(value.toInt())))
        return *dtype;
      return std::nullopt;
    case ArgumentKind::kTensors:
    case ArgumentKind::kOptionalTensors:
    case ArgumentKind::kString:
    case ArgumentKind::kFloats:
    case ArgumentKind::kBools:
    case ArgumentKind::kScalars:
    case ArgumentKind::kDevice:
    case ArgumentKind::kMemoryFormat:
    case ArgumentKind::kLayout:
    case ArgumentKind::kUnsupported:
      return std::nullopt;
  }
  BRAZE_UNREACHABLE("argument kind");
}

}  // namespace

std::optional<std::vector<Argument>> arguments_of_nested(const OperatorInfo& info,
                                                         const torch::jit::Stack& stack,
                                                         size_t begin,
                                                         std::deque<graph::Value>& values) {
  std::vector<Argument> arguments;
  arguments.reserve(info.arguments.size());
  for (size_t i = 0; i < info.arguments.size(); ++i) {
    std::optional<Argument> argument = nested_argument(info.arguments[i], stack[begin + i], values);
    if (!argument) return std::nullopt;
    arguments.push_back(std::move(*argument));
  }
  return arguments;
}

Argument Recorder::take_argument(int i) {
  const c10::IValue& value = argument(i);
  if (value.isNone()) return graph::None{};
  switch (info_.arguments[i]) {
    case ArgumentKind::kTensor:
      return take_tensor(i);
    case ArgumentKind::kTensors:
      return take_tensors(i);
    case ArgumentKind::kOptionalTensors:
      return take_optional_tensors(i);
    case ArgumentKind::kInt:
      if (value.isSymInt()) {
        symbolic_ = true;
        return from_symint(value.toSymInt());
      }
      return sym::Int(value.toInt());
    case ArgumentKind::kFloat:
      if (value.isSymFloat()) fail("a symbolic floating-point argument", kMoveOut);
      return value.toDouble();
    case ArgumentKind::kBool:
      if (value.isSymBool()) return value.toSymBool().guard_bool(__FILE__, __LINE__);
      return value.toBool();
    case ArgumentKind::kScalar: {
      Argument number = number_of(value.toScalar());
      note_number(number);
      return number;
    }
    case ArgumentKind::kString:
      return std::string(value.toStringRef());
    case ArgumentKind::kInts:
    case ArgumentKind::kFloats:
    case ArgumentKind::kBools:
    case ArgumentKind::kScalars:
      return take_list(i);
    case ArgumentKind::kDType: {
      auto type = static_cast<at::ScalarType>(value.toInt());
      auto dtype = try_dtype_of(type);
      if (!dtype) fail(std::string("dtype ") + c10::toString(type) + " is not supported", kMoveOut);
      return *dtype;
    }
    case ArgumentKind::kDevice:
      return take_device(i);
    case ArgumentKind::kMemoryFormat:
      if (auto format = memory_format_of(static_cast<at::MemoryFormat>(value.toInt())))
        return *format;
      fail("this memory format is not supported", kMoveOut);
    case ArgumentKind::kLayout:
      if (static_cast<at::Layout>(value.toInt()) != at::kStrided)
        fail("a sparse or other layout is not supported", kMoveOut);
      return graph::Layout::kStrided;
    case ArgumentKind::kUnsupported:
      fail("argument " + info_.handle.schema().arguments()[i].name() + " of type " +
               info_.handle.schema().arguments()[i].type()->str() + " cannot be recorded",
           kMoveOut);
  }
  BRAZE_UNREACHABLE("argument kind");
}

// A symbol is another number in the next call: what is computed with it is no constant.
void Recorder::note_number(const Argument& number) {
  const auto* integer = std::get_if<sym::Int>(&number);
  if (!integer || integer->is_constant()) return;
  symbolic_ = true;
  constant_ = false;
}

Argument Recorder::take_list(int i) {
  const c10::IValue& value = argument(i);
  if (value.isSymIntList()) {
    sym::Dims dims;
    for (const c10::SymInt& dim : value.toSymIntVector()) {
      symbolic_ |= dim.is_heap_allocated();
      dims.push_back(from_symint(dim));
    }
    return dims;
  }
  if (value.isIntList()) {
    const std::vector<int64_t> list = value.toIntVector();
    return sym::Dims(list.begin(), list.end());
  }
  if (value.isDoubleList()) {
    return value.toDoubleVector();
  }
  if (value.isBoolList()) {
    std::vector<bool> list;
    for (bool element : value.toBoolList()) list.push_back(element);
    return list;
  }
  // Scalar[]: of one kind of number only
  sym::Dims ints;
  std::vector<double> doubles;
  const auto list = value.toList();
  for (size_t j = 0; j < list.size(); ++j) {
    const Argument number = number_of(list.get(j).toScalar());
    note_number(number);
    if (auto* integer = std::get_if<sym::Int>(&number))
      ints.push_back(*integer);
    else if (auto* real = std::get_if<double>(&number))
      doubles.push_back(*real);
    else
      fail("a list of complex or boolean numbers cannot be recorded", kMoveOut);
  }
  if (ints.empty()) return doubles;
  if (!doubles.empty()) fail("a list of integers and floats cannot be recorded", kMoveOut);
  return ints;
}

Argument Recorder::take_tensor(int i) {
  const at::Tensor& tensor = argument(i).toTensor();
  if (!tensor.defined()) return graph::None{};
  if (is_number(tensor)) {
    Argument number = number_in(tensor);
    note_number(number);
    return number;
  }
  argument(i) = take_operand(tensor, i, -1);
  return operands_.back().value;
}

Argument Recorder::take_tensors(int i) {
  // Lists are shared objects: the caller's must not change.
  auto list = argument(i).toTensorList().copy();
  std::vector<graph::Value*> values;
  for (size_t j = 0; j < list.size(); ++j) {
    const at::Tensor tensor = list.get(j);
    if (!tensor.defined()) fail("an undefined tensor in a list cannot be recorded", kMoveOut);
    list.set(j, take_operand(tensor, i, static_cast<int>(j)));
    values.push_back(operands_.back().value);
  }
  argument(i) = list;
  return values;
}

Argument Recorder::take_optional_tensors(int i) {
  auto list = argument(i).toList().copy();
  graph::OptionalRefs<graph::Value*> values;
  for (size_t j = 0; j < list.size(); ++j) {
    const c10::IValue element = list.get(j);
    if (!element.isTensor() || !element.toTensor().defined()) {
      values.refs.emplace_back();
      continue;
    }
    list.set(j, take_operand(element.toTensor(), i, static_cast<int>(j)));
    values.refs.emplace_back(operands_.back().value);
  }
  argument(i) = list;
  return values;
}

at::Tensor Recorder::take_operand(const at::Tensor& tensor, int position, int element) {
  requires_grad_ |= tensor.requires_grad();
  FakeTensorImpl* fake = state_.fake_of(tensor, *info_.op);
  operands_.push_back({position, element, fake->value});
  check_memory(operands_.back());
  symbolic_ |= fake->has_symbolic_sizes_strides();
  constant_ = constant_ && state_.constants_.contains(fake->value);
  if (as_fake(tensor)) return tensor;
  return at::Tensor(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(fake));
}

}  // namespace braze::trace
