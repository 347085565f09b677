#include <algorithm>
#include <string_view>

#include "cpython/exception.h"
#include "cpython/lookup.h"
#include "cpython/text.h"
#include "guard/source.h"
#include "guard/value.h"

namespace braze::guard {

using cpython::Ref;

namespace {

std::string text_of(PyObject* str) {
  const char* text = str != nullptr && PyUnicode_Check(str) ? PyUnicode_AsUTF8(str) : nullptr;
  if (text == nullptr) PyErr_Clear();
  return text != nullptr ? text : "?";
}

// The characters of an ASCII string; nothing of another one.
std::string_view ascii_of(PyObject* str) {
  if (str == nullptr || !PyUnicode_CheckExact(str) || !PyUnicode_IS_COMPACT_ASCII(str)) return {};
  return {static_cast<const char*>(PyUnicode_DATA(str)),
          static_cast<size_t>(PyUnicode_GET_LENGTH(str))};
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_name(PyObject* key) {
  if (key == nullptr || !PyUnicode_CheckExact(key)) return false;
  const std::string_view text = ascii_of(key);
  if (text.empty()) return PyUnicode_IsIdentifier(key) == 1;
  if (is_digit(text[0])) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
  });
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

bool is_key(const Source* source, SourceKind kind, std::string_view name) {
  return source != nullptr && source->kind == kind && ascii_of(source->key.get()) == name;
}

// One of the dicts in which an nn.Module keeps what is written as its attributes.
const Source* owner_of_module_dict(const Source* source) {
  for (const std::string_view name : {"_parameters", "_buffers", "_modules"}) {
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

  std::string text;  // of what has been printed

  void print(const Source* source) {
    PyObject* key = source->key.get();
    switch (source->kind) {
      case SourceKind::kArgument:
        text += argument(PyLong_AsSsize_t(key));
        return;
      case SourceKind::kFunction:
        text += function_ != nullptr ? object_name(function_) : "function";
        return;
      case SourceKind::kPinned:
        text += object_name(key);
        return;
      case SourceKind::kBuiltins:
        text += "builtins";
        return;
      case SourceKind::kGlobal:
      case SourceKind::kBuiltin:
        return append(key);
      case SourceKind::kCell:
        text += cell(source);
        return;
      case SourceKind::kCellObject:
        text += "cell of " + cell(source);
        return;
      case SourceKind::kDefault:
        print(source->base);
        text += ".__defaults__" + subscript(key);
        return;
      case SourceKind::kKwDefault:
        print(source->base);
        text += ".__kwdefaults__" + subscript(key);
        return;
      case SourceKind::kCode:
        print(source->base);
        text += ".__code__";
        return;
      case SourceKind::kAttribute:
      case SourceKind::kTypeAttribute:
        print(source->base);
        text += '.';
        return append(key);
      case SourceKind::kSpecialMethods:
        text += "special methods of ";
        return print(source->base);
      case SourceKind::kType:
        text += "type(";
        print(source->base);
        text += ')';
        return;
      case SourceKind::kContents:
        return print(source->base);
      case SourceKind::kInstanceDict:
        print(source->base);
        text += ".__dict__";
        return;
      case SourceKind::kItem:
        return item(source);
      case SourceKind::kComputed:
        return computed(source);
      case SourceKind::kNative:
        text += object_name(key) + "()";
        return;
    }
    text += '?';
  }

 private:
  // "math.sqrt(s)", "pow(2.0, s)"
  void computed(const Source* source) {
    PyObject* key = source->key.get();
    const Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(key, 1));
    if (Py_IS_TYPE(PyTuple_GET_ITEM(key, 0), &PyMethodDescr_Type)) {
      print(source->base);
      text += std::string(".") + cpython::utf8_of(PyDescr_NAME(PyTuple_GET_ITEM(key, 0))) + "()";
      return;
    }
    const Py_ssize_t count = place < 0 ? 2 : PyTuple_GET_SIZE(key) - 1;
    text += object_name(PyTuple_GET_ITEM(key, 0)) + "(";
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (i > 0) text += ", ";
      if (i == place || place < 0)
        print(i == 1 && source->other ? source->other : source->base);
      else
        text += value_text(PyTuple_GET_ITEM(key, i < place ? i + 2 : i + 1));
    }
    text += ')';
  }

  void append(PyObject* str) {
    const std::string_view ascii = ascii_of(str);
    if (ascii.empty())
      text += text_of(str);
    else
      text += ascii;
  }

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

  void item(const Source* source) {
    PyObject* key = source->key.get();
    const Source* owner = source->base->kind == SourceKind::kInstanceDict
                              ? source->base->base
                              : owner_of_module_dict(source->base);
    if (owner != nullptr && is_name(key)) {
      print(owner);
      text += '.';
      append(key);
    } else if (owner != nullptr && source->base->kind != SourceKind::kInstanceDict &&
               is_number(ascii_of(key))) {
      print(owner);
      text += '[';
      append(key);
      text += ']';
    } else {
      print(source->base);
      text += subscript(key);
    }
  }

  PyObject* parameter_names_;
  PyObject* function_;
};

}  // namespace

std::string to_string(const Source* source, PyObject* parameter_names, PyObject* function) {
  const cpython::SavedException pending;
  Printer printer(parameter_names, function);
  printer.print(source);
  return std::move(printer.text);
}

}  // namespace braze::guard
