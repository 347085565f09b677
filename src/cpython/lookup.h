// Reading Python objects without running Python code: types, instance dicts, cells, functions.
// Nothing here leaves an exception pending or disturbs one that is.
#pragma once

#include <cstdint>

#include "cpython/ref.h"

namespace braze::cpython {

// What the look-up along the MRO finds for `name` (a str), unbound; null if nothing. Borrowed.
PyObject* type_lookup(PyTypeObject* type, PyObject* name);

inline PyObject* as_object(PyTypeObject* type) { return reinterpret_cast<PyObject*>(type); }

// Whether the class was made while the program runs, not compiled into a module.
inline bool is_heap_type(const PyTypeObject* type) {
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0;
}

// Whether Python code can change the class: made by a class statement or like one.
inline bool is_changeable_class(const PyTypeObject* type) {
  return is_heap_type(type) && (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) == 0;
}

// Made by a class statement, not by C.
bool is_python_class(const PyTypeObject* type);

// The class made in C that `type` is or derives from.
PyTypeObject* built_in_base(PyTypeObject* type);

// What decides how native code treats instances of `type`, as a tuple (name, value, name, value
// ...): its MRO and the entries `__len__`, `_missing_` and so on of the classes of its MRO that can
// be changed, apart from data (`__doc__`, `__dict__`, lists and the like). A special method that is
// added to a class, replaced in it or deleted from it gives another tuple.
Ref special_methods(PyTypeObject* type);

// The value of an exact str, int or other atom key in a dict or instance of a subclass, as
// `dict.get` finds it; null if absent. Borrowed.
PyObject* dict_get(PyObject* dict, PyObject* key);

// The dict behind `o.__dict__` of an instance, module or class (a class's own dict, not its proxy);
// empty if its type gives it none. An instance that keeps its attributes inline gets a dict made
// of them: from then on all writes go through it. A functools.partial is given none, as
// functools.partial() does not look into one that has a dict.
Ref instance_dict(PyObject* object);
// The same without making one: null if there is none yet.
PyObject* existing_dict(PyObject* object);

bool is_partial(PyObject* object);

// Whether it is what a C type has for a field of its struct or a pair of C functions.
bool is_native_data_descriptor(PyObject* object);

// An attribute as stored: by a C data descriptor of the type (getset, member, slot), else in the
// instance dict, else (for classes) along the MRO. Empty if absent, or if reading it would run
// Python code (a property, `__getattr__`).
Ref stored_attribute(PyObject* object, PyObject* name);

// The contents of a cell, null if unset. Borrowed.
inline PyObject* cell_contents(PyObject* cell) { return PyCell_GET(cell); }
// The index-th cell of a function's closure, null if there is none. Borrowed.
PyObject* closure_cell(PyFunctionObject* function, Py_ssize_t index);

// What a function defined anew by the same statement has in common with this one, as a tuple: its
// code, its globals, how many defaults it has. Of one with attributes of its own: empty.
Ref function_body(PyFunctionObject* function);
bool has_function_body(PyObject* object, PyObject* body);

inline PyFunctionObject* as_function(PyObject* object) {
  return object != nullptr && PyFunction_Check(object) ? reinterpret_cast<PyFunctionObject*>(object)
                                                       : nullptr;
}

}  // namespace braze::cpython
