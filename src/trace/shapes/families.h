// The own shape functions by operator family, and what they share.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <span>

#include "trace/shapes/shapes.h"
#include "trace/sym_node.h"

namespace braze::trace {

struct NamedShape {
  const char* name;  // "add.Tensor"
  ShapeFunction function;
  bool for_symbols_only;
};

std::span<const NamedShape> normalisation_shapes();
std::span<const NamedShape> convolution_shapes();
std::span<const NamedShape> assembly_shapes();
std::span<const NamedShape> attention_shapes();
std::span<const NamedShape> indexing_shapes();
std::span<const NamedShape> pointwise_shapes();
std::span<const NamedShape> matrix_shapes();
std::span<const NamedShape> view_shapes();
std::span<const NamedShape> reduction_shapes();
std::span<const NamedShape> pooling_shapes();
std::span<const NamedShape> ordering_shapes();
std::span<const NamedShape> scatter_shapes();
std::span<const NamedShape> recurrent_shapes();
std::span<const NamedShape> random_shapes();

using Dims = c10::SmallVector<c10::SymInt, 6>;
using DimsRef = c10::ArrayRef<c10::SymInt>;

inline Dims sizes_of(const at::Tensor& tensor) {
  return Dims(tensor.sym_sizes().begin(), tensor.sym_sizes().end());
}
inline Dims strides_of(const at::Tensor& tensor) {
  return Dims(tensor.sym_strides().begin(), tensor.sym_strides().end());
}

// Guarded questions about sizes; `equal` and `less` are in sym_node.h.
bool all_equal(DimsRef a, DimsRef b);
// Makes sure of it: where a number comes from data, by an assertion. False: it is not so.
bool expect_equal(const c10::SymInt& a, const c10::SymInt& b);
bool expect_at_least(const c10::SymInt& a, int64_t least);
// The same of a size that may be a number.
bool expect_extent(const c10::SymInt& size, int64_t least);
inline bool is(const c10::SymInt& a, int64_t value) {
  return !a.is_heap_allocated() && a.as_int_unchecked() == value;
}

// int[] or SymInt[] arguments.
Dims dims_in(const c10::IValue& value);
c10::SymInt int_in(const c10::IValue& value);
at::ScalarType dtype_in(const c10::IValue& value, at::ScalarType otherwise);

// Row-major strides; size-0 dims count as 1.
Dims contiguous_strides(DimsRef sizes);
bool is_row_major(const at::Tensor& tensor);
// A fresh contiguous fake.
at::Tensor fresh(DimsRef sizes, at::ScalarType dtype);
// empty_like: dense tensors keep their strides, others get those that an elementwise op would give.
at::Tensor fresh_like(const at::Tensor& tensor, at::ScalarType dtype);
// Dense strides in the order in which TensorIterator walks operands of these strides; 0: repeated.
Dims strides_for_operands(DimsRef sizes, c10::ArrayRef<Dims> operand_strides);
// What an elementwise op over these tensors allocates (TensorIterator); `with_number`: and over a
// number, which it takes for a tensor without dimensions.
at::Tensor fresh_elementwise(c10::ArrayRef<at::Tensor> operands, at::ScalarType dtype,
                             bool with_number = false);
// The memory format of a tensor that is dense in exactly one; of others kernels make different
// things.
std::optional<at::MemoryFormat> plain_format(const at::Tensor& tensor);
// A fresh fake in a memory format.
at::Tensor fresh_in_format(DimsRef sizes, at::MemoryFormat format, at::ScalarType dtype);
// Broadcast sizes; raises PyTorch's error if they do not fit.
Dims broadcast(c10::ArrayRef<at::Tensor> operands);

// The second argument of `index` and `index_put`: integer tensors for dimensions `first`,
// `first` + 1, ... of the first argument. Empty for anything else (masks, gaps, too many).
struct Indices {
  size_t first = 0;
  std::vector<at::Tensor> tensors;
};
Indices following_indices(const ShapeCall& call);
bool is_index(const at::Tensor& tensor);

}  // namespace braze::trace
