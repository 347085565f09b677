#include "graph/arguments.h"

#include <algorithm>
#include <numeric>

namespace braze::graph {
namespace {

const Argument& argument(const Node& node, int i) {
  static const Argument absent = None{};
  return i < static_cast<int>(node.args().size()) ? node.args()[i] : absent;
}

[[noreturn]] void mismatch(const Node& node, int i, const char* wanted) {
  BRAZE_UNREACHABLE("argument ", i, " is not ", wanted, ": ", to_string(node));
}

// The argument as a T; null when it is something else.
template <class T>
const T* as(const Node& node, int i) {
  return std::get_if<T>(&argument(node, i));
}

template <class T>
std::optional<T> optional_arg(const Node& node, int i, const char* wanted) {
  if (is_none(node, i)) return std::nullopt;
  if (const T* value = as<T>(node, i)) return *value;
  mismatch(node, i, wanted);
}

}  // namespace

bool is_none(const Node& node, int i) { return std::holds_alternative<None>(argument(node, i)); }

Value* tensor_arg(const Node& node, int i) {
  if (Value* const* value = as<Value*>(node, i)) return *value;
  mismatch(node, i, "a tensor");
}

Value* optional_tensor_arg(const Node& node, int i) {
  return is_none(node, i) ? nullptr : tensor_arg(node, i);
}

std::vector<Value*> tensor_list_arg(const Node& node, int i) {
  if (auto* list = as<std::vector<Value*>>(node, i)) return *list;
  if (auto* optional = as<OptionalRefs<Value*>>(node, i)) {
    std::vector<Value*> list;
    for (const std::optional<Value*>& value : optional->refs)
      list.push_back(value.value_or(nullptr));
    return list;
  }
  mismatch(node, i, "a list of tensors");
}

sym::Int sym_arg(const Node& node, int i) {
  if (auto* value = as<sym::Int>(node, i)) return *value;
  if (auto* value = as<bool>(node, i)) return sym::Int(*value ? 1 : 0);
  mismatch(node, i, "an integer");
}

sym::Int sym_arg_or(const Node& node, int i, sym::Int otherwise) {
  return is_none(node, i) ? otherwise : sym_arg(node, i);
}

int64_t int_arg(const Node& node, int i) { return sym_arg(node, i).constant(); }

int64_t int_arg_or(const Node& node, int i, int64_t otherwise) {
  return is_none(node, i) ? otherwise : int_arg(node, i);
}

std::optional<int64_t> optional_int_arg(const Node& node, int i) {
  if (is_none(node, i)) return std::nullopt;
  return int_arg(node, i);
}

double double_arg(const Node& node, int i) {
  if (!is_scalar(argument(node, i))) mismatch(node, i, "a number");
  return scalar_to_double(argument(node, i));
}

double double_arg_or(const Node& node, int i, double otherwise) {
  return is_none(node, i) ? otherwise : double_arg(node, i);
}

std::optional<double> optional_double_arg(const Node& node, int i) {
  if (is_none(node, i)) return std::nullopt;
  return double_arg(node, i);
}

bool bool_arg(const Node& node, int i) {
  if (auto* value = as<bool>(node, i)) return *value;
  if (auto* value = as<sym::Int>(node, i)) return value->constant() != 0;
  mismatch(node, i, "a bool");
}

bool bool_arg_or(const Node& node, int i, bool otherwise) {
  return is_none(node, i) ? otherwise : bool_arg(node, i);
}

sym::Dims dims_arg(const Node& node, int i) {
  if (auto* list = as<std::vector<sym::Int>>(node, i)) return *list;
  if (auto* value = as<sym::Int>(node, i)) return {*value};
  mismatch(node, i, "a list of integers");
}

std::vector<int64_t> ints_arg(const Node& node, int i) { return sym::constants(dims_arg(node, i)); }

std::optional<DType> optional_dtype_arg(const Node& node, int i) {
  return optional_arg<DType>(node, i, "a dtype");
}

std::optional<Device> optional_device_arg(const Node& node, int i) {
  return optional_arg<Device>(node, i, "a device");
}

std::optional<MemoryFormat> optional_memory_format_arg(const Node& node, int i) {
  return optional_arg<MemoryFormat>(node, i, "a memory format");
}

std::string string_arg_or(const Node& node, int i, std::string otherwise) {
  return optional_arg<std::string>(node, i, "a string").value_or(std::move(otherwise));
}

bool is_scalar(const Argument& argument) {
  return std::holds_alternative<sym::Int>(argument) || std::holds_alternative<double>(argument) ||
         std::holds_alternative<bool>(argument) ||
         std::holds_alternative<std::complex<double>>(argument);
}

DTypeKind scalar_kind(const Argument& argument) {
  if (std::holds_alternative<bool>(argument)) return DTypeKind::kBool;
  if (std::holds_alternative<sym::Int>(argument)) return DTypeKind::kSigned;
  if (std::holds_alternative<double>(argument)) return DTypeKind::kFloat;
  BRAZE_CHECK(std::holds_alternative<std::complex<double>>(argument), "argument is no scalar");
  return DTypeKind::kComplex;
}

double scalar_to_double(const Argument& argument) {
  if (auto* value = std::get_if<double>(&argument)) return *value;
  if (auto* value = std::get_if<bool>(&argument)) return *value ? 1 : 0;
  if (auto* value = std::get_if<sym::Int>(&argument))
    return static_cast<double>(value->constant());
  BRAZE_UNREACHABLE("argument is no real scalar");
}

bool is_number(const Argument& argument, double value) {
  if (!is_scalar(argument) || scalar_kind(argument) == DTypeKind::kComplex) return false;
  return scalar_to_double(argument) == value;
}

int64_t normalize_dim(int64_t dim, int64_t rank) {
  const int64_t range = std::max<int64_t>(rank, 1);
  BRAZE_CHECK(dim >= -range && dim < range, "dim ", dim, " of a tensor of rank ", rank);
  return dim < 0 ? dim + range : dim;
}

std::vector<int64_t> reduction_dims_arg(const Node& node, int i, int64_t rank) {
  std::vector<int64_t> dims;
  if (!is_none(node, i)) dims = ints_arg(node, i);
  if (dims.empty()) {
    dims.resize(rank);
    std::iota(dims.begin(), dims.end(), 0);
    return dims;
  }
  for (int64_t& dim : dims) dim = normalize_dim(dim, rank);
  std::sort(dims.begin(), dims.end());
  return dims;
}

}  // namespace braze::graph
