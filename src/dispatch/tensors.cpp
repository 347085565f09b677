#include "dispatch/tensors.h"

#include <Python.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

namespace braze::dispatch {

PyObject* wrap(at::Tensor tensor) {
  PyObject* result = nullptr;
  translate_exceptions([&] { result = THPVariable_Wrap(std::move(tensor)); });
  return result;
}

at::Tensor unwrap(PyObject* object) {
  return THPVariable_Check(object) ? THPVariable_Unpack(object) : at::Tensor();
}

bool is_tensor(PyObject* object) { return THPVariable_Check(object); }

at::Tensor borrow(c10::TensorImpl* impl) {
  return at::Tensor(
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(impl));
}

static PyObject* guarded(const std::function<void()>& body) {
  HANDLE_TH_ERRORS
  body();
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

bool translate_exceptions(const std::function<void()>& body) {
  PyObject* none = guarded(body);
  Py_XDECREF(none);
  return none != nullptr;
}

}  // namespace braze::dispatch
