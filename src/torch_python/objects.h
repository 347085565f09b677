// Python objects of PyTorch's and what is behind them. The GIL is held.
//
// The headers of PyTorch's Python bindings cost a source some 15 s; what the product needs of them
// is declared in this folder, and only its sources include them.
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>
#include <c10/core/SymInt.h>

#include <optional>

namespace braze::torch_python {

// torch.Tensor or a subclass of it, by the object's type alone.
bool is_tensor(PyObject* object);

namespace detail {
// Bytes from the start of a torch.Tensor object to its at::Tensor, which versions of PyTorch put at
// different places.
extern const ptrdiff_t tensor_offset;
}  // namespace detail

// Of an object that is a tensor.
inline const at::Tensor& tensor_of(PyObject* object) {
  return *reinterpret_cast<const at::Tensor*>(reinterpret_cast<const char*>(object) +
                                              detail::tensor_offset);
}

// A new reference; the tensor's existing Python object where it has one. Throws PyTorch's C++
// exception.
PyObject* wrap(at::Tensor tensor);

// A new reference: a torch.SymInt, or an int where the value is a number.
PyObject* wrap(const c10::SymInt& value);

// Of a torch.SymInt or an int. Throws std::exception for anything else.
c10::SymInt symint_of(PyObject* object);

// PyTorch's argument parser makes a tensor of a torch.SymInt in a tensor's place, and keeps the
// SymInt in an attribute of the tensor's Python object.
std::optional<c10::SymInt> symint_kept_by(const at::Tensor& tensor);

// torch.float32 for kFloat. Borrowed.
PyObject* dtype_object(at::ScalarType dtype);

}  // namespace braze::torch_python
