#include "cpython/watch.h"

#include "cpython/exception.h"
#include "cpython/lookup.h"

namespace braze::cpython {

namespace {

#if PY_VERSION_HEX >= 0x030D0000
// CPython 3.13 lets an instance and its dict share the inline values; stores by attribute then pass
// the dict by. A key that is no string gives the dict a table of its own.
void detach_inline_values(PyObject* dict) {
  const Ref key = Ref::steal(PyLong_FromLong(0));
  if (!key || PyDict_Contains(dict, key.get()) != 0) return;
  if (PyDict_SetItem(dict, key.get(), Py_None) == 0) PyDict_DelItem(dict, key.get());
}

bool shares_inline_values(PyObject* owner) {
  return (Py_TYPE(owner)->tp_flags & Py_TPFLAGS_INLINE_VALUES) != 0;
}
#endif

}  // namespace

PyObject** observable_dict_slot(PyObject* owner) {
  const SavedException pending;
  const Ref dict = instance_dict(owner);
  PyObject** slot = _PyObject_GetDictPtr(owner);
  if (!dict || slot == nullptr || *slot != dict.get()) return nullptr;
#if PY_VERSION_HEX >= 0x030D0000
  if (shares_inline_values(owner)) detach_inline_values(dict.get());
#endif
  return slot;
}

unsigned type_version(PyTypeObject* type) {
  if (const unsigned version = current_type_version(type)) return version;
  const SavedException pending;
#if PY_VERSION_HEX >= 0x030C0000
  PyUnstable_Type_AssignVersionTag(type);
#else
  static PyObject* const name = PyUnicode_InternFromString("__class__");
  _PyType_Lookup(type, name);  // a look-up gives the class its version
#endif
  return current_type_version(type);
}

}  // namespace braze::cpython
