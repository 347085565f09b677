// The one place where this folder crosses between torch.Tensor objects and at::Tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include "cpython/ref.h"

namespace braze::dispatch {

// A new reference; the tensor's existing Python object where it has one. Null with an exception
// set.
PyObject* wrap(at::Tensor tensor);
// Undefined if the object is no tensor.
at::Tensor unwrap(PyObject* object);
bool is_tensor(PyObject* object);

// A new reference to a tensor that was borrowed.
at::Tensor borrow(c10::TensorImpl* impl);

}  // namespace braze::dispatch
