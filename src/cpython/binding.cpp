#include "cpython/frame.h"

namespace braze::cpython {

namespace {

// Keywords by identity first: names are interned as a rule.
int parameter_index(const PyCodeObject* code, PyObject* keyword) {
  const int end = code->co_argcount + code->co_kwonlyargcount;
  PyObject* names = code->co_localsplusnames;
  for (int i = code->co_posonlyargcount; i < end; ++i)
    if (PyTuple_GET_ITEM(names, i) == keyword) return i;
  for (int i = code->co_posonlyargcount; i < end; ++i)
    if (PyUnicode_Compare(PyTuple_GET_ITEM(names, i), keyword) == 0) return i;
  return -1;
}

class Binder {
 public:
  Binder(PyFunctionObject* function, PyObject** bound, std::vector<Ref>& keep)
      : function_(function),
        code_(reinterpret_cast<PyCodeObject*>(function->func_code)),
        bound_(bound),
        keep_(keep),
        named_(code_->co_argcount + code_->co_kwonlyargcount) {}

  bool run(PyObject* const* args, Py_ssize_t count, PyObject* kwnames) {
    return bind_positional(args, count) && bind_keywords(args + count, kwnames) && fill_defaults();
  }

 private:
  bool bind_positional(PyObject* const* args, Py_ssize_t count) {
    const int positional = code_->co_argcount;
    for (int i = 0; i < named_; ++i) bound_[i] = i < positional && i < count ? args[i] : nullptr;
    if ((code_->co_flags & CO_VARARGS) == 0) return count <= positional;
    const Py_ssize_t rest = count > positional ? count - positional : 0;
    Ref tuple = Ref::steal(PyTuple_New(rest));
    if (!tuple) return false;
    for (Py_ssize_t i = 0; i < rest; ++i)
      PyTuple_SET_ITEM(tuple.get(), i, Py_NewRef(args[positional + i]));
    bound_[named_] = tuple.get();
    keep_.push_back(std::move(tuple));
    return true;
  }

  bool bind_keywords(PyObject* const* values, PyObject* kwnames) {
    PyObject* rest = nullptr;
    if ((code_->co_flags & CO_VARKEYWORDS) != 0) {
      Ref dict = Ref::steal(PyDict_New());
      if (!dict) return false;
      rest = dict.get();
      bound_[named_ + ((code_->co_flags & CO_VARARGS) != 0)] = rest;
      keep_.push_back(std::move(dict));
    }
    const Py_ssize_t count = kwnames != nullptr ? PyTuple_GET_SIZE(kwnames) : 0;
    for (Py_ssize_t i = 0; i < count; ++i)
      if (!bind_keyword(PyTuple_GET_ITEM(kwnames, i), values[i], rest)) return false;
    return true;
  }

  bool bind_keyword(PyObject* keyword, PyObject* value, PyObject* rest) {
    // A subclass of str may compare by code of its own: CPython's business.
    if (!PyUnicode_CheckExact(keyword)) return false;
    const int index = parameter_index(code_, keyword);
    if (index < 0) return rest != nullptr && PyDict_SetItem(rest, keyword, value) == 0;
    if (bound_[index] != nullptr) return false;
    bound_[index] = value;
    return true;
  }

  bool fill_defaults() {
    const int positional = code_->co_argcount;
    PyObject* defaults = function_->func_defaults;
    const int have = defaults != nullptr ? static_cast<int>(PyTuple_GET_SIZE(defaults)) : 0;
    for (int i = 0; i < positional; ++i) {
      if (bound_[i] != nullptr) continue;
      const int index = i - (positional - have);
      if (index < 0) return false;
      bound_[i] = PyTuple_GET_ITEM(defaults, index);
    }
    for (int i = positional; i < named_; ++i) {
      if (bound_[i] != nullptr) continue;
      PyObject* name = PyTuple_GET_ITEM(code_->co_localsplusnames, i);
      PyObject* kwdefaults = function_->func_kwdefaults;
      bound_[i] = kwdefaults != nullptr ? PyDict_GetItemWithError(kwdefaults, name) : nullptr;
      if (bound_[i] == nullptr) return false;
    }
    return true;
  }

  PyFunctionObject* function_;
  PyCodeObject* code_;
  PyObject** bound_;
  std::vector<Ref>& keep_;
  int named_;
};

}  // namespace

int parameter_count(const PyCodeObject* code) {
  return code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
         ((code->co_flags & CO_VARKEYWORDS) != 0);
}

bool bind_arguments(PyFunctionObject* function, PyObject* const* args, size_t nargsf,
                    PyObject* kwnames, PyObject** bound, std::vector<Ref>& keep) {
  const bool fits = Binder(function, bound, keep).run(args, PyVectorcall_NARGS(nargsf), kwnames);
  if (!fits) PyErr_Clear();
  return fits;
}

}  // namespace braze::cpython
