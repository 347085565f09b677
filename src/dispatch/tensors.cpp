#include "dispatch/tensors.h"

#include "torch_python/errors.h"
#include "torch_python/objects.h"

namespace braze::dispatch {

PyObject* wrap(at::Tensor tensor) {
  PyObject* result = nullptr;
  torch_python::translate_exceptions([&] { result = torch_python::wrap(std::move(tensor)); });
  return result;
}

at::Tensor unwrap(PyObject* object) {
  return is_tensor(object) ? torch_python::tensor_of(object) : at::Tensor();
}

bool is_tensor(PyObject* object) { return torch_python::is_tensor(object); }

at::Tensor borrow(c10::TensorImpl* impl) {
  return at::Tensor(
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(impl));
}

}  // namespace braze::dispatch
