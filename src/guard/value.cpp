#include "guard/value.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>

#include <cstring>

#include "cpython/exception.h"

namespace braze::guard {

using cpython::Ref;

namespace {

bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

bool same_tuple(PyObject* a, PyObject* b) {
  if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i)
    if (!same_value(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
  return true;
}

bool same_slice(PyObject* a, PyObject* b) {
  auto x = reinterpret_cast<PySliceObject*>(a);
  auto y = reinterpret_cast<PySliceObject*>(b);
  return same_value(x->start, y->start) && same_value(x->stop, y->stop) &&
         same_value(x->step, y->step);
}

// Compares by the objects' own `==`, which must be CPython's.
bool equal(PyObject* a, PyObject* b) {
  const cpython::SavedException pending;
  return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

bool is_numpy_scalar(PyObject* object) {
  const std::string_view type = Py_TYPE(object)->tp_name;
  return type.starts_with("numpy.") && type != "numpy.ndarray" && PyObject_CheckBuffer(object);
}

bool same_bytes(PyObject* a, PyObject* b) {
  const cpython::SavedException pending;
  const Ref x = Ref::steal(PyBytes_FromObject(a)), y = Ref::steal(PyBytes_FromObject(b));
  return x && y && equal(x.get(), y.get());
}

bool is_plain_scalar(PyObject* object) {
  return object == Py_None || object == Py_Ellipsis || PyBool_Check(object) ||
         PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyComplex_CheckExact(object) ||
         PyUnicode_CheckExact(object) || PyBytes_CheckExact(object);
}

bool is_torch_constant(PyObject* object) {
  return THPDtype_Check(object) || THPDevice_Check(object) || THPLayout_Check(object) ||
         THPMemoryFormat_Check(object);
}

// Tuples, named ones apart, which may have a comparison of their own.
bool is_exact(PyObject* atom) { return !PyTuple_Check(atom) || PyTuple_CheckExact(atom); }

// By identity, as `object` does: classes, functions, enum members, plain instances.
bool compared_by_identity(PyObject* object) {
  return Py_TYPE(object)->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

bool compared_without_user_code(PyObject* set) {
  const Ref iterator = Ref::steal(PyObject_GetIter(set));
  if (!iterator) return false;
  while (Ref item = Ref::steal(PyIter_Next(iterator.get()))) {
    PyObject* member = item.get();
    if (!compared_by_identity(member) && !(is_atom(member) && is_exact(member))) return false;
  }
  return PyErr_Occurred() == nullptr;
}

// Equal numbers, and tuples of them, may be of different types, which a set does not tell apart.
bool same_numbers(PyObject* a, PyObject* b) {
  const Ref members = Ref::steal(PySequence_List(b));
  const Ref iterator = Ref::steal(PyObject_GetIter(a));
  if (!members || !iterator) return false;
  while (Ref item = Ref::steal(PyIter_Next(iterator.get()))) {
    const bool ambiguous = PyNumber_Check(item.get()) || PyTuple_Check(item.get());
    bool found = !ambiguous || compared_by_identity(item.get());
    for (Py_ssize_t i = 0; !found && i < PyList_GET_SIZE(members.get()); ++i)
      found = same_value(item.get(), PyList_GET_ITEM(members.get(), i));
    if (!found) return false;
  }
  return PyErr_Occurred() == nullptr;
}

// Sets keep the hashes of their members, so these are not asked again.
bool same_set(PyObject* a, PyObject* b) {
  const cpython::SavedException pending;
  return PySet_GET_SIZE(a) == PySet_GET_SIZE(b) && compared_without_user_code(a) &&
         compared_without_user_code(b) && PyObject_RichCompareBool(a, b, Py_EQ) == 1 &&
         same_numbers(a, b);
}

bool shown_as_is(PyObject* object, int depth = 0) {
  if (is_plain_scalar(object) || is_torch_constant(object) || is_numpy_scalar(object)) return true;
  const bool sequence = PyTuple_CheckExact(object) || PyList_CheckExact(object);
  if (!sequence || depth > 3) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
    if (!shown_as_is(PySequence_Fast_GET_ITEM(object, i), depth + 1)) return false;
  return true;
}

std::string shortened(std::string text) {
  constexpr size_t kLongest = 100;
  if (text.size() > kLongest) text = text.substr(0, kLongest - 3) + "...";
  return text;
}

std::string attribute_text(PyObject* object, const char* name) {
  const Ref value = Ref::steal(PyObject_GetAttrString(object, name));
  const char* text =
      value && PyUnicode_Check(value.get()) ? PyUnicode_AsUTF8(value.get()) : nullptr;
  return text != nullptr ? text : "";
}

}  // namespace

bool same_value(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr || Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyUnicode_CheckExact(a) || PyLong_CheckExact(a) || PyBytes_CheckExact(a) || PyRange_Check(a))
    return equal(a, b);
  if (PyFloat_CheckExact(a)) return same_bits(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
  if (PyComplex_CheckExact(a)) {
    const Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
    return same_bits(x.real, y.real) && same_bits(x.imag, y.imag);
  }
  if (PyTuple_Check(a)) return same_tuple(a, b);
  if (PySlice_Check(a)) return same_slice(a, b);
  if (PyFrozenSet_CheckExact(a)) return same_set(a, b);
  if (THPDevice_Check(a))
    return reinterpret_cast<THPDevice*>(a)->device == reinterpret_cast<THPDevice*>(b)->device;
  return is_numpy_scalar(a) && same_bytes(a, b);
}

bool is_atom(PyObject* object) {
  if (is_plain_scalar(object) || is_torch_constant(object)) return true;
  if (!PyTuple_Check(object)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
    if (!is_atom(PyTuple_GET_ITEM(object, i))) return false;
  return true;
}

std::string value_text(PyObject* object) {
  if (object == nullptr) return "absent";
  const cpython::SavedException pending;
  if (PyType_Check(object) || PyFunction_Check(object) || PyCFunction_Check(object)) {
    const std::string module = attribute_text(object, "__module__");
    const std::string name = attribute_text(object, "__qualname__");
    const char* kind = PyType_Check(object) ? "class " : "function ";
    return kind + (module.empty() || module == "builtins" ? name : module + "." + name);
  }
  if (PyModule_Check(object)) return "module " + attribute_text(object, "__name__");
  if (!shown_as_is(object)) {
    if (PyTuple_Check(object) || PyList_Check(object))
      return "a " + std::string(Py_TYPE(object)->tp_name) + " of " +
             std::to_string(PySequence_Fast_GET_SIZE(object));
    return std::string("a ") + Py_TYPE(object)->tp_name + " object";
  }
  const Ref text = Ref::steal(PyObject_Repr(object));
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  return shortened(utf8 != nullptr ? utf8 : "?");
}

}  // namespace braze::guard
