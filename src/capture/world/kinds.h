// Kinds of Python objects, as far as a trace tells them apart.
#pragma once

#include <vector>

#include "capture/known.h"
#include "cpython/lookup.h"
#include "cpython/ref.h"

namespace braze::capture {

using cpython::as_object;
using cpython::is_heap_type;
using cpython::is_python_class;
using cpython::Ref;

// A method of a class made in C, unbound: dict.get, dict.__getitem__.
inline bool is_method_of_c(PyObject* object) {
  return Py_IS_TYPE(object, &PyWrapperDescr_Type) || Py_IS_TYPE(object, &PyMethodDescr_Type);
}
// As which a type made in C has the function of one of its slots: dict.__getattribute__ is nothing
// but PyObject_GenericGetAttr.
template <typename Function>
bool is_wrapper_of(PyObject* method, Function* function) {
  return method && Py_IS_TYPE(method, &PyWrapperDescr_Type) &&
         reinterpret_cast<PyWrapperDescrObject*>(method)->d_wrapped ==
             reinterpret_cast<void*>(function);
}

// Of this very type, not of one derived from it.
inline bool is_type_of(PyObject* object, PyTypeObject* type) { return Py_TYPE(object) == type; }

// A scalar of numpy, whose value never changes.
bool is_numpy_number(PyObject* object);
// Those that vary are no atoms, so that a value in each call is no compile for each: what reads one
// of these adds it, for as long as this lives, on this thread.
class LooseNumbers {
 public:
  LooseNumbers();
  ~LooseNumbers();
  LooseNumbers(const LooseNumbers&) = delete;
  void add(PyObject* number) { numbers_.push_back(Ref::borrow(number)); }
  static bool contain(PyObject* number);

 private:
  std::vector<Ref> numbers_;
  LooseNumbers* outer_;
};

// None, numbers, strings, dtypes: immutable and guarded by value.
inline bool is_atom(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBool_Type ||
      type == &PyFloat_Type || object == Py_None || type == &PyBytes_Type || object == Py_Ellipsis)
    return true;
  for (PyObject* atom : known().atom_types)
    if (reinterpret_cast<PyObject*>(type) == atom) return true;
  return is_numpy_number(object) && !LooseNumbers::contain(object);
}
// A list, tuple, dict, set, frozenset or deque, or of a subclass of one.
bool is_container(PyObject* object);
// What a container holds (of a dict: the keys), in order, as a list: by the C type below its class,
// whatever methods the class has.
Ref own_items(PyObject* container);
// How many there are of these.
Py_ssize_t own_length(PyObject* container);
// One of the same class with the same items; empty where there is none, maybe with an exception.
Ref copy_container(PyObject* original);
// Never changes, or is shared program structure that is guarded by identity.
bool is_immutable(PyObject* object);
// Hands out its memory, to which others may then write: an array of NumPy's, a bytearray, and the
// instances of classes derived from such. Native code that looks into it reads what no guard
// covers.
bool exports_memory(PyObject* object);
// An object made in C whose value never changes and that only its identity stands for.
bool is_frozen(PyObject* object);
// The instance dict, made if the object has none yet; null, nothing pending, without one. Borrowed.
PyObject* instance_dict(PyObject* object);

// Guarded by identity wherever it is read: program structure that nobody changes in place.
bool is_structure(PyObject* object);
// Of a class derived from a number's or a string's: C looks at the value itself.
bool is_number_or_text(PyObject* object);
// Generic aliases and the like of typing.
bool is_typing_form(PyObject* object);

}  // namespace braze::capture
