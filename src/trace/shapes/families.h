// The operators whose metadata is asked of PyTorch itself, and what else looks at fakes.
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
};

// PyTorch picks a backend by the sizes, which decides about the layout.
std::span<const NamedShape> convolution_shapes();
// The kernel of the PyTorch that runs tells the layout.
std::span<const NamedShape> attention_shapes();
// Errors of writes in place that PyTorch's kernels for metadata let pass.
std::span<const NamedShape> write_shapes();
// Layers of lists of tensors (trace/recurrent.cpp).
std::span<const NamedShape> recurrent_shapes();

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
// A fresh fake in a memory format.
at::Tensor fresh_in_format(DimsRef sizes, at::MemoryFormat format, at::ScalarType dtype);

}  // namespace braze::trace
