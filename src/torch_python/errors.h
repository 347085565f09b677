// Exceptions on their way between Python and C++, as PyTorch's bindings take them.
#pragma once

#include <Python.h>

#include <exception>
#include <functional>
#include <string>

namespace braze::torch_python {

// Runs `body`, turning C++ exceptions into the Python exception that PyTorch's own bindings would
// raise. False with an exception set.
bool translate_exceptions(const std::function<void()>& body);

// The pending Python exception as PyTorch's C++ exception.
[[noreturn]] void throw_pending();

// A C++ exception that PyTorch's bindings turn into one of the given Python type. `type` outlives
// it.
[[noreturn]] void throw_as(PyObject* type, std::string message);

// Whether PyTorch carries a Python exception in this C++ exception; one of the given type, if there
// is a type.
bool carries_python_error(const std::exception& error, PyObject* type = nullptr);

}  // namespace braze::torch_python
