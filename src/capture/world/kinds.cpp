#include "capture/world/kinds.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "capture/recording/recording.h"

namespace braze::capture {

bool is_numpy_number(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || !PyObject_CheckBuffer(object)) return false;
  return std::ranges::find(known().numpy_numbers, type) != known().numpy_numbers.end();
}

static thread_local LooseNumbers* g_loose_numbers = nullptr;

LooseNumbers::LooseNumbers() : outer_(std::exchange(g_loose_numbers, this)) {}
LooseNumbers::~LooseNumbers() { g_loose_numbers = outer_; }

bool LooseNumbers::contain(PyObject* number) {
  const LooseNumbers* loose = g_loose_numbers;
  return loose &&
         std::ranges::any_of(loose->numbers_, [&](const Ref& one) { return one.get() == number; });
}

// Guarded by identity wherever it is read: program structure that nobody changes in place.
bool is_structure(PyObject* object) {
  return PyFunction_Check(object) || PyType_Check(object) || PyModule_Check(object) ||
         PyCFunction_Check(object) || PyCode_Check(object) ||
         is_type_of(object, &PyMethodDescr_Type) || is_type_of(object, &PyWrapperDescr_Type) ||
         is_type_of(object, &PyGetSetDescr_Type) || is_type_of(object, &PyMemberDescr_Type) ||
         is_type_of(object, &PyProperty_Type) || is_type_of(object, &PyClassMethod_Type) ||
         is_type_of(object, &PyStaticMethod_Type) || is_lru_cache(object) ||
         (Py_TYPE(Py_TYPE(object)) != &PyType_Type &&
          PyObject_TypeCheck(object, known().enum_type));
}

// Of a class derived from one of these: C looks at the value itself.
bool is_number_or_text(PyObject* object) {
  return PyLong_Check(object) || PyFloat_Check(object) || PyComplex_Check(object) ||
         PyUnicode_Check(object) || PyBytes_Check(object);
}

// `Union[int, str]`, `Optional[...]`: what the module typing looks into by itself.
bool is_typing_form(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (!is_python_class(type)) return false;
  PyObject* module = PyDict_GetItemWithError(type->tp_dict, names().module);
  return module && PyUnicode_Check(module) &&
         PyUnicode_CompareWithASCIIString(module, "typing") == 0;
}

bool is_container(PyObject* object) {
  return PyDict_Check(object) || PyList_Check(object) || PyTuple_Check(object) ||
         PyAnySet_Check(object) || PyObject_TypeCheck(object, known().deque);
}

Ref own_items(PyObject* container) {
  PyTypeObject* type = cpython::built_in_base(Py_TYPE(container));
  Ref iterator = Ref::steal(type->tp_iter(container));
  return iterator ? Ref::steal(PySequence_List(iterator.get())) : Ref();
}

Py_ssize_t own_length(PyObject* container) {
  if (PyDict_Check(container)) return PyDict_GET_SIZE(container);
  return PyAnySet_Check(container) ? PySet_GET_SIZE(container) : Py_SIZE(container);
}

bool exports_memory(PyObject* object) {
  return PyObject_CheckBuffer(object) && !PyBytes_Check(object) && !is_atom(object);
}

bool is_frozen(PyObject* object) {
  static const std::unordered_set<std::string_view> types = {"re.Pattern",
                                                             "re.Match",
                                                             "datetime.timedelta",
                                                             "datetime.date",
                                                             "datetime.time",
                                                             "datetime.datetime",
                                                             "datetime.timezone",
                                                             "decimal.Decimal",
                                                             "operator.itemgetter",
                                                             "operator.attrgetter",
                                                             "operator.methodcaller",
                                                             "method-wrapper",
                                                             "typing.TypeVar",
                                                             "typing.ParamSpec",
                                                             "typing.TypeVarTuple",
                                                             "_struct.Struct",
                                                             "types.UnionType",
                                                             "types.GenericAlias"};
  return !is_python_class(Py_TYPE(object)) && types.contains(Py_TYPE(object)->tp_name);
}

bool is_immutable(PyObject* object) {
  if (is_atom(object)) return true;
  // The types met most often first.
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyList_Type || type == &PyDict_Type) return false;
  if (type == &PyTuple_Type || type == &PyFrozenSet_Type || type == known().size ||
      type == &PyRange_Type || type == &PySlice_Type || type == &PyMethod_Type ||
      type == &PySuper_Type || type == known().pattern)
    return true;
  return is_structure(object) || is_symbolic(object);
}

PyObject* instance_dict(PyObject* object) {
  if (PyModule_Check(object)) return PyModule_GetDict(object);
  PyTypeObject* type = Py_TYPE(object);
#ifdef Py_TPFLAGS_MANAGED_DICT
  bool managed = PyType_HasFeature(type, Py_TPFLAGS_MANAGED_DICT);
#else
  bool managed = false;
#endif
  if ((type->tp_dictoffset == 0 && !managed) || PyType_Check(object)) return nullptr;
  PyObject* dict = PyObject_GenericGetDict(object, nullptr);
  if (!dict) {
    PyErr_Clear();
    return nullptr;
  }
  Py_DECREF(dict);  // the object keeps it
  return dict;
}

}  // namespace braze::capture
