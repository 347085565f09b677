#include "cpython/lookup.h"

#include "cpython/exception.h"

namespace braze::cpython {

namespace {

// Look-ups report failure by exceptions of their own, and some lose one that is pending.
template <class Read>
auto undisturbed(Read read) {
  if (PyErr_Occurred() == nullptr) {
    auto result = read();
    if (!result) PyErr_Clear();
    return result;
  }
  const SavedException pending;
  return read();
}

}  // namespace

bool is_native_data_descriptor(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type;
}

PyObject* type_lookup(PyTypeObject* type, PyObject* name) {
  return undisturbed([&] { return _PyType_Lookup(type, name); });
}

PyObject* dict_get(PyObject* dict, PyObject* key) {
  return undisturbed([&] { return PyDict_GetItemWithError(dict, key); });
}

Ref instance_dict(PyObject* object) {
#if PY_VERSION_HEX >= 0x030C0000
  if (PyType_Check(object))
    return Ref::steal(PyType_GetDict(reinterpret_cast<PyTypeObject*>(object)));
#endif
  return undisturbed([&] { return Ref::steal(PyObject_GenericGetDict(object, nullptr)); });
}

PyObject* existing_dict(PyObject* object) {
  PyObject** slot = _PyObject_GetDictPtr(object);
  return slot != nullptr ? *slot : nullptr;
}

Ref stored_attribute(PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject* on_type = type_lookup(type, name);
  if (on_type != nullptr && Py_TYPE(on_type)->tp_descr_set != nullptr) {
    if (!is_native_data_descriptor(on_type)) return {};
    const Ref keep = Ref::borrow(on_type);
    return undisturbed([&] {
      return Ref::steal(
          Py_TYPE(on_type)->tp_descr_get(on_type, object, reinterpret_cast<PyObject*>(type)));
    });
  }
  if (PyType_Check(object))
    return Ref::borrow(type_lookup(reinterpret_cast<PyTypeObject*>(object), name));
  const Ref dict = instance_dict(object);
  return dict ? Ref::borrow(dict_get(dict.get(), name)) : Ref();
}

PyObject* closure_cell(PyFunctionObject* function, Py_ssize_t index) {
  PyObject* closure = function->func_closure;
  if (closure == nullptr || index < 0 || index >= PyTuple_GET_SIZE(closure)) return nullptr;
  return PyTuple_GET_ITEM(closure, index);
}

}  // namespace braze::cpython
