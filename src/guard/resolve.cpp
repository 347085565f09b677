#include "guard/resolve.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cpython/exception.h"
#include "cpython/lookup.h"

namespace braze::guard {

using cpython::Ref;

namespace {

Ref function_part(SourceKind kind, PyFunctionObject* function, PyObject* key) {
  switch (kind) {
    case SourceKind::kGlobal:
      return Ref::borrow(cpython::dict_get(function->func_globals, key));
    case SourceKind::kBuiltin:
      return Ref::borrow(cpython::dict_get(function->func_builtins, key));
    case SourceKind::kCell: {
      PyObject* cell = cpython::closure_cell(function, PyLong_AsSsize_t(key));
      return cell != nullptr ? Ref::borrow(cpython::cell_contents(cell)) : Ref();
    }
    case SourceKind::kCellObject:
      return Ref::borrow(cpython::closure_cell(function, PyLong_AsSsize_t(key)));
    case SourceKind::kDefault: {
      PyObject* defaults = function->func_defaults;
      const Py_ssize_t index = PyLong_AsSsize_t(key);
      if (defaults == nullptr || index < 0 || index >= PyTuple_GET_SIZE(defaults)) return {};
      return Ref::borrow(PyTuple_GET_ITEM(defaults, index));
    }
    case SourceKind::kKwDefault:
      if (function->func_kwdefaults == nullptr) return {};
      return Ref::borrow(cpython::dict_get(function->func_kwdefaults, key));
    case SourceKind::kCode:
      return Ref::borrow(function->func_code);
    default:
      BRAZE_UNREACHABLE("no part of a function");
  }
}

PyTypeObject* deque_type() {
  static PyObject* const type = [] {
    const cpython::SavedException pending;
    const Ref module = Ref::steal(PyImport_ImportModule("collections"));
    return module ? PyObject_GetAttrString(module.get(), "deque") : nullptr;
  }();
  BRAZE_CHECK(type != nullptr, "collections.deque cannot be imported");
  return reinterpret_cast<PyTypeObject*>(type);
}

// By the slot of the class made in C, whatever methods the object's own has.
Ref sequence_item(PyObject* object, PyObject* key) {
  if (!PyLong_Check(key)) return {};
  const cpython::SavedException pending;
  Py_ssize_t index = PyLong_AsSsize_t(key);
  if (index == -1 && PyErr_Occurred() != nullptr) return {};
  const Py_ssize_t size = Py_SIZE(object);
  if (index < 0) index += size;
  if (index < 0 || index >= size) return {};
  if (is_deque(object)) return Ref::steal(deque_type()->tp_as_sequence->sq_item(object, index));
  return Ref::borrow(PyList_Check(object) ? PyList_GET_ITEM(object, index)
                                          : PyTuple_GET_ITEM(object, index));
}

Ref item(PyObject* object, PyObject* key) {
  if (PyDict_Check(object)) return Ref::borrow(cpython::dict_get(object, key));
  if (PyList_Check(object) || PyTuple_Check(object) || is_deque(object))
    return sequence_item(object, key);
  return {};
}

bool is_number(PyObject* object) { return PyFloat_CheckExact(object) || PyLong_CheckExact(object); }

// Empty, with nothing pending, for a call that fails.
Ref call_of(PyObject* function, const std::vector<PyObject*>& arguments) {
  const cpython::SavedException pending;
  Ref result =
      Ref::steal(PyObject_Vectorcall(function, arguments.data(), arguments.size(), nullptr));
  if (!result) PyErr_Clear();
  return result;
}

// Of a number, or what a method written in C (`Tensor.item`) gives for its object.
Ref computed(PyObject* base, PyObject* key) {
  PyObject* function = PyTuple_GET_ITEM(key, 0);
  const bool is_method =
      Py_IS_TYPE(function, &PyMethodDescr_Type) && PyObject_TypeCheck(base, PyDescr_TYPE(function));
  if (!is_method && !is_number(base)) return {};
  std::vector<PyObject*> arguments;
  const Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(key, 1));
  if (place < 0) arguments.push_back(base);
  for (Py_ssize_t i = 2; i < PyTuple_GET_SIZE(key); ++i)
    arguments.push_back(PyTuple_GET_ITEM(key, i));
  arguments.insert(arguments.begin() + std::max<Py_ssize_t>(place, 0), base);
  return call_of(function, arguments);
}

}  // namespace

bool is_deque(PyObject* object) { return PyObject_TypeCheck(object, deque_type()); }

Ref resolve_root(const Source* source, PyObject* function, PyObject* const* args) {
  switch (source->kind) {
    case SourceKind::kArgument:
      return Ref::borrow(args[PyLong_AsSsize_t(source->key.get())]);
    case SourceKind::kFunction:
      return Ref::borrow(function);
    case SourceKind::kPinned:
      return source->key;
    case SourceKind::kBuiltins: {
      PyFunctionObject* plain = cpython::as_function(function);
      return plain != nullptr ? Ref::borrow(plain->func_builtins) : Ref();
    }
    case SourceKind::kNative: {
      const cpython::SavedException pending;
      Ref result = Ref::steal(PyObject_CallNoArgs(source->key.get()));
      if (!result) PyErr_Clear();
      return result;
    }
    default:
      BRAZE_UNREACHABLE("source has a base");
  }
}

Ref resolve_step(const Source* source, PyObject* base) {
  PyObject* key = source->key.get();
  switch (source->kind) {
    case SourceKind::kGlobal:
    case SourceKind::kBuiltin:
    case SourceKind::kCell:
    case SourceKind::kCellObject:
    case SourceKind::kDefault:
    case SourceKind::kKwDefault:
    case SourceKind::kCode: {
      PyFunctionObject* function = cpython::as_function(base);
      return function != nullptr ? function_part(source->kind, function, key) : Ref();
    }
    case SourceKind::kAttribute:
      return cpython::stored_attribute(base, key);
    case SourceKind::kTypeAttribute:
      if (!PyType_Check(base)) return {};
      return Ref::borrow(cpython::type_lookup(reinterpret_cast<PyTypeObject*>(base), key));
    case SourceKind::kSpecialMethods:
      return PyType_Check(base) ? cpython::special_methods(reinterpret_cast<PyTypeObject*>(base))
                                : Ref();
    case SourceKind::kType:
      return Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(base)));
    case SourceKind::kContents:
      return PyCell_Check(base) ? Ref::borrow(cpython::cell_contents(base)) : Ref();
    case SourceKind::kInstanceDict:
      return cpython::instance_dict(base);
    case SourceKind::kItem:
      return item(base, key);
    case SourceKind::kComputed:
      return computed(base, key);
    case SourceKind::kArgument:
    case SourceKind::kFunction:
    case SourceKind::kPinned:
    case SourceKind::kBuiltins:
    case SourceKind::kNative:
      break;
  }
  BRAZE_UNREACHABLE("source has no base");
}

Ref resolve_step(const Source* source, PyObject* base, PyObject* function, PyObject* const* args) {
  if (!source->other) return resolve_step(source, base);
  const Ref other = resolve(source->other, function, args);
  return other && is_number(base) && is_number(other.get())
             ? call_of(PyTuple_GET_ITEM(source->key.get(), 0), {base, other.get()})
             : Ref();
}

Ref resolve(const Source* source, PyObject* function, PyObject* const* args) {
  if (source->base == nullptr) return resolve_root(source, function, args);
  const Ref base = resolve(source->base, function, args);
  return base ? resolve_step(source, base.get(), function, args) : Ref();
}

}  // namespace braze::guard
