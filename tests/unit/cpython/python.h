// Helpers of the tests that embed an interpreter.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "cpython/exception.h"
#include "cpython/ref.h"

namespace braze::cpython::testing {

// The pending exception as "Type: message", which is then cleared.
inline std::string take_exception() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const Ref type_ref = Ref::steal(type), value_ref = Ref::steal(value);
  const Ref traceback_ref = Ref::steal(traceback);
  if (!type_ref) return "";
  const Ref text = Ref::steal(PyObject_Str(value));
  return std::string(reinterpret_cast<PyTypeObject*>(type)->tp_name) + ": " +
         PyUnicode_AsUTF8(text.get());
}

// A namespace of its own, filled by running `source`.
class Program {
 public:
  explicit Program(const char* source) : globals_(Ref::steal(PyDict_New())) {
    PyDict_SetItemString(globals_.get(), "__builtins__", PyEval_GetBuiltins());
    const Ref name = Ref::steal(PyUnicode_FromString("program"));
    PyDict_SetItemString(globals_.get(), "__name__", name.get());
    run(source);
  }
  void run(const char* source) {
    const Ref result =
        Ref::steal(PyRun_String(source, Py_file_input, globals_.get(), globals_.get()));
    if (!result) ADD_FAILURE() << take_exception();
  }
  Ref eval(const char* expression) {
    Ref result =
        Ref::steal(PyRun_String(expression, Py_eval_input, globals_.get(), globals_.get()));
    if (!result) ADD_FAILURE() << expression << ": " << take_exception();
    return result;
  }
  bool holds(const char* expression) {
    const Ref result = eval(expression);
    return result && PyObject_IsTrue(result.get()) == 1;
  }
  PyObject* get(const char* name) { return PyDict_GetItemString(globals_.get(), name); }
  void set(const char* name, PyObject* value) { PyDict_SetItemString(globals_.get(), name, value); }
  PyObject* globals() { return globals_.get(); }

 private:
  Ref globals_;
};

inline std::string repr(PyObject* object) {
  if (object == nullptr) return "<null> " + take_exception();
  const Ref text = Ref::steal(PyObject_Repr(object));
  return text ? PyUnicode_AsUTF8(text.get()) : take_exception();
}
inline std::string repr(const Ref& object) { return repr(object.get()); }

inline PyCodeObject* code_of(PyObject* function) {
  return reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
}

}  // namespace braze::cpython::testing
