// Which real tensors can be traced.
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <string>

namespace braze::trace {

// Empty if the tensor is supported. `check_type`: its Python type too, for which the GIL is needed.
std::string why_unsupported(const at::Tensor& tensor, bool check_type);

// The class of the Python object that stands for the tensor; arguments.cpp, which has the headers
// of PyTorch's bindings. With the GIL.
PyTypeObject* python_type_of(const at::Tensor& tensor);

}  // namespace braze::trace
