#include "trace/supported.h"

#include "pytorch/nodes.h"
#include "torch_python/objects.h"
#include "trace/fake_tensor.h"
#include "trace/tracer.h"

namespace braze::trace {
namespace {

// torch.Tensor itself or torch.nn.Parameter; buffers are plain tensors.
bool is_plain_type(PyTypeObject* type) {
  auto find = [](const char* module_name, const char* name) {
    PyObject* module = PyImport_ImportModule(module_name);
    PyObject* found = module ? PyObject_GetAttrString(module, name) : nullptr;
    Py_XDECREF(module);
    if (!found) PyErr_Clear();
    return found;
  };
  static PyObject* const tensor = find("torch", "Tensor");
  static PyObject* const parameter = find("torch.nn.parameter", "Parameter");
  auto* object = reinterpret_cast<PyObject*>(type);
  return object == tensor || object == parameter;
}

}  // namespace

std::string why_unsupported(const at::Tensor& tensor, bool check_type) {
  using c10::DispatchKey;
  const c10::DispatchKeySet keys = tensor.key_set();
  if (as_fake(tensor)) return "it is a result of a trace";
  if (tensor.layout() != at::kStrided) return "its layout is not dense";
  if (tensor.is_nested()) return "it is a nested tensor";
  if (tensor.is_quantized()) return "it is quantised";
  if (!tensor.device().is_cpu() && !tensor.device().is_cuda())
    return "it is on device " + tensor.device().str();
  if (!try_dtype_of(tensor.scalar_type()))
    return std::string("its dtype is ") + c10::toString(tensor.scalar_type());
  if (tensor.is_conj() || tensor.is_neg()) return "it is lazily conjugated or negated";
  if (keys.has_any(c10::DispatchKeySet(
          {DispatchKey::Python, DispatchKey::FuncTorchBatched, DispatchKey::FuncTorchGradWrapper,
           DispatchKey::Functionalize, DispatchKey::ZeroTensor, kFakeKey})))
    return "it is a tensor subclass or wrapper";
  if (!tensor.unsafeGetTensorImpl()->has_storage()) return "it has no storage";
  if (pytorch::has_tangent(*tensor.unsafeGetTensorImpl()))
    return "it carries a tangent of forward-mode differentiation";
  if (check_type) {
    PyObject* object = torch_python::wrap(tensor);
    PyTypeObject* type = Py_TYPE(object);
    Py_DECREF(object);
    if (!is_plain_type(type)) return std::string("it is of the tensor subclass ") + type->tp_name;
  }
  return "";
}

}  // namespace braze::trace
