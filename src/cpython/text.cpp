#include "cpython/text.h"

#include "cpython/exception.h"

namespace braze::cpython {

const char* utf8_of(PyObject* object) {
  if (object == nullptr || !PyUnicode_Check(object)) return "?";
  // One of ASCII alone is its own encoding: nothing can fail.
  if (PyUnicode_IS_COMPACT_ASCII(object)) return PyUnicode_AsUTF8(object);
  SavedException pending;
  const char* text = PyUnicode_AsUTF8(object);
  return text != nullptr ? text : "?";
}

}  // namespace braze::cpython
