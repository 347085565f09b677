// Fakes by their sizes and layout, as the rules of traces make them and look at them.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <optional>

#include "trace/shapes/shapes.h"
#include "trace/sym_node.h"

namespace braze::trace {

using Dims = c10::SmallVector<c10::SymInt, 6>;
using DimsRef = c10::ArrayRef<c10::SymInt>;

inline Dims sizes_of(const at::Tensor& tensor) {
  return Dims(tensor.sym_sizes().begin(), tensor.sym_sizes().end());
}
inline Dims strides_of(const at::Tensor& tensor) {
  return Dims(tensor.sym_strides().begin(), tensor.sym_strides().end());
}

// int[] or SymInt[] arguments.
Dims dims_in(const c10::IValue& value);
c10::SymInt int_in(const c10::IValue& value);

// A fresh row-major fake.
at::Tensor fresh(DimsRef sizes, at::ScalarType dtype);
// As torch.empty_like, of a fake or a tensor on the CPU or a GPU.
at::Tensor fresh_like(const at::Tensor& tensor, at::ScalarType dtype);
// The memory format of a tensor that is dense in exactly one; of others kernels make different
// things.
std::optional<at::MemoryFormat> plain_format(const at::Tensor& tensor);
// Whether it is not contiguous, and of no memory format that puts channels last.
bool is_sliced_row_major(const at::Tensor& tensor);
// A fresh fake in a memory format.
at::Tensor fresh_in_format(DimsRef sizes, at::MemoryFormat format, at::ScalarType dtype);

}  // namespace braze::trace
