#include "cpython/lookup.h"

#include <string_view>
#include <unordered_map>
#include <vector>

#include "cpython/exception.h"
#include "cpython/watch.h"

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

// `__len__`, `_missing_`, not `__doc__`.
bool is_special_name(PyObject* name) {
  if (!PyUnicode_CheckExact(name) || !PyUnicode_IS_COMPACT_ASCII(name)) return false;
  const std::string_view text(static_cast<const char*>(PyUnicode_DATA(name)),
                              static_cast<size_t>(PyUnicode_GET_LENGTH(name)));
  return text.size() > 2 && text.front() == '_' && text.back() == '_' && text != "__doc__";
}

bool is_data(PyObject* value) {
  return PyUnicode_Check(value) || PyLong_Check(value) || PyDict_Check(value) ||
         PyList_Check(value) || PyTuple_Check(value) || PySet_Check(value) ||
         Py_IS_TYPE(value, &PyGetSetDescr_Type);
}

}  // namespace

bool is_python_class(const PyTypeObject* type) {
  // CPython gives every such class the one destructor.
  static const destructor of_python_classes = [] {
    const SavedException pending;
    const Ref made = Ref::steal(
        PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(){}", "Any"));
    return reinterpret_cast<PyTypeObject*>(made.get())->tp_dealloc;
  }();
  return type->tp_dealloc == of_python_classes;
}

PyTypeObject* built_in_base(PyTypeObject* type) {
  while (is_python_class(type)) type = type->tp_base;
  return type;
}

bool is_native_data_descriptor(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type;
}

PyObject* type_lookup(PyTypeObject* type, PyObject* name) {
  return undisturbed([&] { return _PyType_Lookup(type, name); });
}

// Of those in the class's own dict. Kept by the class's version.
static const std::vector<Ref>& special_names(PyTypeObject* type) {
  struct Known {
    unsigned version = 0;
    std::vector<Ref> names;
  };
  static std::unordered_map<PyTypeObject*, Known> classes;  // under the GIL
  constexpr size_t kKept = 4096;
  if (classes.size() > kKept) classes.clear();
  const unsigned version = current_type_version(type);
  Known& known = classes[type];
  if (version != 0 && known.version == version) return known.names;
  known = {.version = version};
  Py_ssize_t position = 0;
  PyObject *name, *value;
  while (PyDict_Next(type->tp_dict, &position, &name, &value) != 0)
    if (is_special_name(name) && !is_data(value)) known.names.push_back(Ref::borrow(name));
  return known.names;
}

Ref special_methods(PyTypeObject* type) {
  std::vector<PyObject*> found;
  PyObject* mro = type->tp_mro;  // null while its mro() is under way
  static PyObject* const mro_name = PyUnicode_InternFromString("__mro__");
  if (mro != nullptr) found = {mro_name, mro};
  for (Py_ssize_t i = 0; mro != nullptr && i < PyTuple_GET_SIZE(mro); ++i) {
    auto base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (!is_changeable_class(base)) continue;
    for (const Ref& name : special_names(base))
      if (PyObject* value = dict_get(base->tp_dict, name.get()))
        found.insert(found.end(), {name.get(), value});
  }
  return undisturbed([&] {
    Ref result = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(found.size())));
    for (size_t i = 0; result && i < found.size(); ++i)
      PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), Py_NewRef(found[i]));
    return result;
  });
}

PyObject* dict_get(PyObject* dict, PyObject* key) {
  return undisturbed([&] { return PyDict_GetItemWithError(dict, key); });
}

bool is_partial(PyObject* object) {
  static PyObject* const partial = [] {
    const SavedException pending;
    const Ref module = Ref::steal(PyImport_ImportModule("functools"));
    return module ? PyObject_GetAttrString(module.get(), "partial") : nullptr;
  }();
  return reinterpret_cast<PyObject*>(Py_TYPE(object)) == partial;
}

Ref instance_dict(PyObject* object) {
#if PY_VERSION_HEX >= 0x030C0000
  if (PyType_Check(object))
    return Ref::steal(PyType_GetDict(reinterpret_cast<PyTypeObject*>(object)));
#endif
  if (is_partial(object)) return Ref::borrow(existing_dict(object));
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

static bool has_attributes(PyFunctionObject* function) {
  return function->func_dict != nullptr && PyDict_GET_SIZE(function->func_dict) != 0;
}

static Py_ssize_t default_count(PyFunctionObject* function) {
  return function->func_defaults != nullptr ? PyTuple_GET_SIZE(function->func_defaults) : 0;
}

static Py_ssize_t keyword_default_count(PyFunctionObject* function) {
  return function->func_kwdefaults != nullptr ? PyDict_GET_SIZE(function->func_kwdefaults) : 0;
}

Ref function_body(PyFunctionObject* function) {
  if (has_attributes(function)) return {};
  const Ref defaults = Ref::steal(PyLong_FromSsize_t(default_count(function)));
  const Ref keywords = Ref::steal(PyLong_FromSsize_t(keyword_default_count(function)));
  return Ref::steal(
      PyTuple_Pack(4, function->func_code, function->func_globals, defaults.get(), keywords.get()));
}

bool has_function_body(PyObject* object, PyObject* body) {
  PyFunctionObject* function = as_function(object);
  return function != nullptr && function->func_code == PyTuple_GET_ITEM(body, 0) &&
         function->func_globals == PyTuple_GET_ITEM(body, 1) &&
         default_count(function) == PyLong_AsSsize_t(PyTuple_GET_ITEM(body, 2)) &&
         keyword_default_count(function) == PyLong_AsSsize_t(PyTuple_GET_ITEM(body, 3)) &&
         !has_attributes(function);
}

PyObject* closure_cell(PyFunctionObject* function, Py_ssize_t index) {
  PyObject* closure = function->func_closure;
  if (closure == nullptr || index < 0 || index >= PyTuple_GET_SIZE(closure)) return nullptr;
  return PyTuple_GET_ITEM(closure, index);
}

}  // namespace braze::cpython
