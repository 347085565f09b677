// Reading arguments by position, checked. A position past the end of the list counts as
// None, as do explicit Nones; "optional_..." and "..._or" accept it, the others are internal errors
// that name the node.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace braze::graph {

// A node's arguments, or arguments without a node yet.
class ArgumentList {
 public:
  ArgumentList(const Node& node) : args_(node.args()), node_(&node) {}  // NOLINT: implicit
  ArgumentList(std::span<const Argument> args) : args_(args) {}         // NOLINT: implicit
  ArgumentList(const std::vector<Argument>& args) : args_(args) {}      // NOLINT: implicit

  // None when past the end.
  const Argument& operator[](int i) const;
  int size() const { return static_cast<int>(args_.size()); }
  std::string where() const;  // for messages

 private:
  std::span<const Argument> args_;
  const Node* node_ = nullptr;
};

bool is_none(ArgumentList list, int i);

Value* tensor_arg(ArgumentList list, int i);
Value* optional_tensor_arg(ArgumentList list, int i);  // null: absent
// A Tensor[] argument; also a Tensor?[] one (absent elements null).
std::vector<Value*> tensor_list_arg(ArgumentList list, int i);

sym::Int sym_arg(ArgumentList list, int i);
sym::Int sym_arg_or(ArgumentList list, int i, sym::Int otherwise);
int64_t int_arg(ArgumentList list, int i);
int64_t int_arg_or(ArgumentList list, int i, int64_t otherwise);
std::optional<int64_t> optional_int_arg(ArgumentList list, int i);

double double_arg(ArgumentList list, int i);  // of an integer or bool too
double double_arg_or(ArgumentList list, int i, double otherwise);
std::optional<double> optional_double_arg(ArgumentList list, int i);

bool bool_arg(ArgumentList list, int i);
bool bool_arg_or(ArgumentList list, int i, bool otherwise);

sym::Dims dims_arg(ArgumentList list, int i);  // a single integer counts as a list of one
std::vector<int64_t> ints_arg(ArgumentList list, int i);

std::optional<DType> optional_dtype_arg(ArgumentList list, int i);
std::optional<Device> optional_device_arg(ArgumentList list, int i);
std::optional<MemoryFormat> optional_memory_format_arg(ArgumentList list, int i);
// Empty: absent.
std::string string_arg_or(ArgumentList list, int i, std::string otherwise);

// A Scalar argument keeps the kind that the user wrote, which decides about type promotion.
bool is_scalar(const Argument& argument);  // integer, double, bool or complex
DTypeKind scalar_kind(const Argument& argument);
double scalar_to_double(const Argument& argument);  // not complex
// Whether the argument is the scalar number `value` (1, 1.0 and true are 1).
bool is_number(const Argument& argument, double value);

// dim in [-rank, rank) to [0, rank); a tensor of rank 0 counts as one of rank 1.
int64_t normalize_dim(int64_t dim, int64_t rank);
// The dims argument of a reduction, normalised, ascending: None and an empty list mean all.
std::vector<int64_t> reduction_dims_arg(ArgumentList list, int i, int64_t rank);

}  // namespace braze::graph
