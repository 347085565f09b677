// Has a dict or a class changed? Answered by CPython's version tags: globally unique numbers that
// every modification replaces, so that equal tags mean an unchanged dict or class, and even the
// same one where another might have been put at the same address. (CPython 3.11 to 3.13; a later
// version without dict tags would implement this with PyDict_Watch.)
#pragma once

#include <cstdint>

#include "cpython/ref.h"

namespace braze::cpython {

// Storing the value that is there already may keep the tag; every other modification replaces it.
inline uint64_t dict_version(PyObject* dict) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#pragma GCC diagnostic pop
}

// Where `owner` keeps the pointer to its instance dict, with the dict made and every later
// attribute store going through it; null if it has none. Valid as long as `owner` lives and is of
// that type.
PyObject** observable_dict_slot(PyObject* owner);

// 0: the class has no version (any more); it must be looked up again every time.
inline unsigned current_type_version(const PyTypeObject* type) {
#if PY_VERSION_HEX >= 0x030D0000
  return type->tp_version_tag;
#else
  return (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) != 0 ? type->tp_version_tag : 0;
#endif
}
// The same, giving it one if it has none. Changes with every change of the class or a base.
unsigned type_version(PyTypeObject* type);

}  // namespace braze::cpython
