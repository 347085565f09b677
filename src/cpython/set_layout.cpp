#include "cpython/set_layout.h"

#include <cstring>

namespace braze::cpython {

bool copy_set_layout(PyObject* from, PyObject* to) {
  auto* source = reinterpret_cast<PySetObject*>(from);
  auto* target = reinterpret_cast<PySetObject*>(to);
  const auto places = static_cast<size_t>(source->mask) + 1;
  setentry* table = target->smalltable;
  if (source->table != source->smalltable) {
    table = PyMem_New(setentry, places);
    if (table == nullptr) return PyErr_NoMemory(), false;
  }
  std::memcpy(table, source->table, places * sizeof(setentry));
  // Where a member was removed stands a marker, with a hash that no member has; it is not counted.
  for (size_t i = 0; i < places; ++i)
    if (table[i].key != nullptr && table[i].hash != -1) Py_INCREF(table[i].key);
  target->table = table;
  target->mask = source->mask;
  target->fill = source->fill;
  target->used = source->used;
  target->finger = source->finger;
  return true;
}

}  // namespace braze::cpython
