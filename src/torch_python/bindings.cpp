// objects.h and errors.h in one source: what the bindings' headers cost is paid once.
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include "torch_python/errors.h"
#include "torch_python/objects.h"

namespace braze::torch_python {
namespace {

// PyTorch's bindings turn any PyTorchError into its Python type.
struct TypedError final : torch::PyTorchError {
  TypedError(PyObject* type, std::string message) : PyTorchError(std::move(message)), type(type) {}
  PyObject* python_type() override { return type; }
  PyObject* type;
};

PyObject* none_or_null(const std::function<void()>& body) {
  HANDLE_TH_ERRORS
  body();
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

}  // namespace

const ptrdiff_t detail::tensor_offset = [] {
  THPVariable object{};
  return reinterpret_cast<const char*>(&THPVariable_Unpack(&object)) -
         reinterpret_cast<const char*>(&object);
}();

// By what it is: THPVariable_Check believes an object's __class__, which may be a property.
bool is_tensor(PyObject* object) {
  return THPVariableClass &&
         PyType_IsSubtype(Py_TYPE(object), reinterpret_cast<PyTypeObject*>(THPVariableClass));
}

PyObject* wrap(at::Tensor tensor) { return THPVariable_Wrap(std::move(tensor)); }

PyObject* wrap(const c10::SymInt& value) { return pybind11::cast(value).release().ptr(); }

c10::SymInt symint_of(PyObject* object) { return pybind11::handle(object).cast<c10::SymInt>(); }

std::optional<c10::SymInt> symint_kept_by(const at::Tensor& tensor) {
  pybind11::gil_scoped_acquire gil;
  auto object = pybind11::reinterpret_steal<pybind11::object>(THPVariable_Wrap(tensor));
  if (!pybind11::hasattr(object, "_wrapped_number")) return std::nullopt;
  pybind11::object number = object.attr("_wrapped_number");
  if (!torch::is_symint(number)) return std::nullopt;
  return number.cast<c10::SymInt>();
}

PyObject* dtype_object(at::ScalarType dtype) {
  return reinterpret_cast<PyObject*>(torch::getTHPDtype(dtype));
}

bool translate_exceptions(const std::function<void()>& body) {
  PyObject* none = none_or_null(body);
  Py_XDECREF(none);
  return none != nullptr;
}

void throw_pending() { throw python_error(); }

void throw_as(PyObject* type, std::string message) { throw TypedError(type, std::move(message)); }

bool carries_python_error(const std::exception& error, PyObject* type) {
  auto* carrier = dynamic_cast<const python_error*>(&error);
  if (!carrier || !type) return carrier != nullptr;
  pybind11::gil_scoped_acquire gil;
  return PyErr_GivenExceptionMatches(carrier->type, type);
}

}  // namespace braze::torch_python
