#include <string_view>

#include "cpython/exception.h"
#include "cpython/lookup.h"
#include "guard/source.h"

namespace braze::guard {

using cpython::Ref;

namespace {

std::string text_of(PyObject* str) {
  const char* text = str != nullptr && PyUnicode_Check(str) ? PyUnicode_AsUTF8(str) : nullptr;
  if (text == nullptr) PyErr_Clear();
  return text != nullptr ? text : "?";
}

bool is_name(PyObject* key) {
  return key != nullptr && PyUnicode_CheckExact(key) && PyUnicode_IsIdentifier(key) == 1;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

bool is_key(const Source* source, SourceKind kind, const char* name) {
  return source != nullptr && source->kind == kind && PyUnicode_CheckExact(source->key.get()) &&
         PyUnicode_CompareWithASCIIString(source->key.get(), name) == 0;
}

// One of the dicts in which an nn.Module keeps what is written as its attributes.
const Source* owner_of_module_dict(const Source* source) {
  for (const char* name : {"_parameters", "_buffers", "_modules"}) {
    if (is_key(source, SourceKind::kAttribute, name)) return source->base;
    if (is_key(source, SourceKind::kItem, name) && source->base->kind == SourceKind::kInstanceDict)
      return source->base->base;
  }
  return nullptr;
}

std::string string_attribute(PyObject* object, const char* name) {
  const Ref value = Ref::steal(PyObject_GetAttrString(object, name));
  if (!value) PyErr_Clear();
  return value && PyUnicode_Check(value.get()) ? text_of(value.get()) : "";
}

// Modules, classes and functions by their names; other objects run no code to describe themselves.
std::string object_name(PyObject* object) {
  if (PyModule_Check(object)) return string_attribute(object, "__name__");
  const bool named = PyType_Check(object) || PyFunction_Check(object) || PyCFunction_Check(object);
  if (!named) return std::string("<") + Py_TYPE(object)->tp_name + " object>";
  const std::string module = string_attribute(object, "__module__");
  const std::string name = string_attribute(object, "__qualname__");
  return module.empty() || module == "builtins" ? name : module + "." + name;
}

std::string subscript(PyObject* key) {
  const bool safe = PyUnicode_CheckExact(key) || PyLong_CheckExact(key) || key == Py_None ||
                    PyBool_Check(key) || PyFloat_CheckExact(key) || PyBytes_CheckExact(key);
  if (!safe) return "[" + object_name(key) + "]";
  const Ref text = Ref::steal(PyObject_Repr(key));
  return "[" + text_of(text.get()) + "]";
}

class Printer {
 public:
  Printer(PyObject* parameter_names, PyObject* function)
      : parameter_names_(parameter_names), function_(function) {}

  std::string print(const Source* source) const {
    PyObject* key = source->key.get();
    switch (source->kind) {
      case SourceKind::kArgument:
        return argument(PyLong_AsSsize_t(key));
      case SourceKind::kFunction:
        return function_ != nullptr ? object_name(function_) : "function";
      case SourceKind::kPinned:
        return object_name(key);
      case SourceKind::kBuiltins:
        return "builtins";
      case SourceKind::kGlobal:
      case SourceKind::kBuiltin:
        return text_of(key);
      case SourceKind::kCell:
        return cell(source);
      case SourceKind::kCellObject:
        return "cell of " + cell(source);
      case SourceKind::kDefault:
        return print(source->base) + ".__defaults__" + subscript(key);
      case SourceKind::kKwDefault:
        return print(source->base) + ".__kwdefaults__" + subscript(key);
      case SourceKind::kCode:
        return print(source->base) + ".__code__";
      case SourceKind::kAttribute:
      case SourceKind::kTypeAttribute:
        return print(source->base) + "." + text_of(key);
      case SourceKind::kType:
        return "type(" + print(source->base) + ")";
      case SourceKind::kContents:
        return print(source->base);
      case SourceKind::kInstanceDict:
        return print(source->base) + ".__dict__";
      case SourceKind::kItem:
        return item(source);
      case SourceKind::kNative:
        return object_name(key) + "()";
    }
    return "?";
  }

 private:
  std::string argument(Py_ssize_t index) const {
    if (parameter_names_ != nullptr && PyTuple_Check(parameter_names_) && index >= 0 &&
        index < PyTuple_GET_SIZE(parameter_names_))
      return text_of(PyTuple_GET_ITEM(parameter_names_, index));
    return "argument " + std::to_string(index);
  }

  // The name of a closure variable, where the function is at hand.
  std::string cell(const Source* source) const {
    const Py_ssize_t index = PyLong_AsSsize_t(source->key.get());
    PyObject* owner = source->base->kind == SourceKind::kFunction ? function_
                      : source->base->kind == SourceKind::kPinned ? source->base->key.get()
                                                                  : nullptr;
    if (PyFunctionObject* function = cpython::as_function(owner)) {
      auto code = reinterpret_cast<PyCodeObject*>(function->func_code);
      const Ref names = Ref::steal(PyCode_GetFreevars(code));
      if (names && index >= 0 && index < PyTuple_GET_SIZE(names.get()))
        return text_of(PyTuple_GET_ITEM(names.get(), index));
    }
    return "closure variable " + std::to_string(index);
  }

  std::string item(const Source* source) const {
    PyObject* key = source->key.get();
    if (source->base->kind == SourceKind::kInstanceDict && is_name(key))
      return print(source->base->base) + "." + text_of(key);
    if (const Source* module = owner_of_module_dict(source->base)) {
      if (is_name(key)) return print(module) + "." + text_of(key);
      if (PyUnicode_CheckExact(key) && is_number(text_of(key)))
        return print(module) + "[" + text_of(key) + "]";
    }
    return print(source->base) + subscript(key);
  }

  PyObject* parameter_names_;
  PyObject* function_;
};

}  // namespace

std::string to_string(const Source* source, PyObject* parameter_names, PyObject* function) {
  const cpython::SavedException pending;
  return Printer(parameter_names, function).print(source);
}

}  // namespace braze::guard
