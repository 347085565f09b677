#include "dispatch/tensors.h"

#include "pytorch/errors.h"
#include "pytorch/objects.h"

namespace braze::dispatch {

PyObject* wrap(at::Tensor tensor) {
  PyObject* result = nullptr;
  pytorch::translate_exceptions([&] { result = pytorch::wrap(std::move(tensor)); });
  return result;
}

at::Tensor unwrap(PyObject* object) {
  return is_tensor(object) ? pytorch::tensor_of(object) : at::Tensor();
}

bool is_tensor(PyObject* object) { return pytorch::is_tensor(object); }

at::Tensor borrow(c10::TensorImpl* impl) {
  return at::Tensor(
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(impl));
}

}  // namespace braze::dispatch
