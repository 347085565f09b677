#include "graph/arguments.h"

#include <algorithm>
#include <numeric>

namespace braze::graph {
namespace {

[[noreturn]] void mismatch(ArgumentList list, int i, const char* wanted) {
  BRAZE_UNREACHABLE("argument ", i, " is not ", wanted, ": ", list.where());
}

// The argument as a T; null when it is something else.
template <class T>
const T* as(ArgumentList list, int i) {
  return std::get_if<T>(&list[i]);
}

template <class T>
std::optional<T> optional_arg(ArgumentList list, int i, const char* wanted) {
  if (is_none(list, i)) return std::nullopt;
  if (const T* value = as<T>(list, i)) return *value;
  mismatch(list, i, wanted);
}

}  // namespace

const Argument& ArgumentList::operator[](int i) const {
  static const Argument absent = None{};
  return i < size() ? args_[i] : absent;
}

std::string ArgumentList::where() const {
  return node_ ? to_string(*node_) : "arguments of a new node";
}

bool is_none(ArgumentList list, int i) { return std::holds_alternative<None>(list[i]); }

Value* tensor_arg(ArgumentList list, int i) {
  if (Value* const* value = as<Value*>(list, i)) return *value;
  mismatch(list, i, "a tensor");
}

Value* optional_tensor_arg(ArgumentList list, int i) {
  return is_none(list, i) ? nullptr : tensor_arg(list, i);
}

std::vector<Value*> tensor_list_arg(ArgumentList list, int i) {
  if (auto* values = as<std::vector<Value*>>(list, i)) return *values;
  if (auto* optional = as<OptionalRefs<Value*>>(list, i)) {
    std::vector<Value*> values;
    for (const std::optional<Value*>& value : optional->refs)
      values.push_back(value.value_or(nullptr));
    return values;
  }
  mismatch(list, i, "a list of tensors");
}

sym::Int sym_arg(ArgumentList list, int i) {
  if (auto* value = as<sym::Int>(list, i)) return *value;
  if (auto* value = as<bool>(list, i)) return sym::Int(*value ? 1 : 0);
  mismatch(list, i, "an integer");
}

sym::Int sym_arg_or(ArgumentList list, int i, sym::Int otherwise) {
  return is_none(list, i) ? otherwise : sym_arg(list, i);
}

int64_t int_arg(ArgumentList list, int i) { return sym_arg(list, i).constant(); }

int64_t int_arg_or(ArgumentList list, int i, int64_t otherwise) {
  return is_none(list, i) ? otherwise : int_arg(list, i);
}

std::optional<int64_t> optional_int_arg(ArgumentList list, int i) {
  if (is_none(list, i)) return std::nullopt;
  return int_arg(list, i);
}

double double_arg(ArgumentList list, int i) {
  if (!is_scalar(list[i])) mismatch(list, i, "a number");
  return scalar_to_double(list[i]);
}

double double_arg_or(ArgumentList list, int i, double otherwise) {
  return is_none(list, i) ? otherwise : double_arg(list, i);
}

std::optional<double> optional_double_arg(ArgumentList list, int i) {
  if (is_none(list, i)) return std::nullopt;
  return double_arg(list, i);
}

bool bool_arg(ArgumentList list, int i) {
  if (auto* value = as<bool>(list, i)) return *value;
  if (auto* value = as<sym::Int>(list, i)) return value->constant() != 0;
  mismatch(list, i, "a bool");
}

bool bool_arg_or(ArgumentList list, int i, bool otherwise) {
  return is_none(list, i) ? otherwise : bool_arg(list, i);
}

sym::Dims dims_arg(ArgumentList list, int i) {
  if (auto* dims = as<std::vector<sym::Int>>(list, i)) return *dims;
  if (auto* value = as<sym::Int>(list, i)) return {*value};
  mismatch(list, i, "a list of integers");
}

std::vector<int64_t> ints_arg(ArgumentList list, int i) {
  return sym::constants(dims_arg(list, i));
}

std::optional<DType> optional_dtype_arg(ArgumentList list, int i) {
  return optional_arg<DType>(list, i, "a dtype");
}

std::optional<Device> optional_device_arg(ArgumentList list, int i) {
  return optional_arg<Device>(list, i, "a device");
}

std::optional<MemoryFormat> optional_memory_format_arg(ArgumentList list, int i) {
  return optional_arg<MemoryFormat>(list, i, "a memory format");
}

std::string string_arg_or(ArgumentList list, int i, std::string otherwise) {
  return optional_arg<std::string>(list, i, "a string").value_or(std::move(otherwise));
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
  if (auto* value = std::get_if<sym::Int>(&argument)) return static_cast<double>(value->constant());
  const auto* value = std::get_if<std::complex<double>>(&argument);
  BRAZE_CHECK(value && value->imag() == 0, "argument is no real scalar");
  return value->real();
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

std::vector<int64_t> reduction_dims_arg(ArgumentList list, int i, int64_t rank) {
  std::vector<int64_t> dims;
  if (!is_none(list, i)) dims = ints_arg(list, i);
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
