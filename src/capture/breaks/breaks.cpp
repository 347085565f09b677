#include "capture/breaks/breaks.h"

#include "capture/known.h"

namespace braze::capture {

using cpython::Ref;

std::nullptr_t Breaks::raise(BreakKind kind, std::string what) {
  if (!reason_) {
    PyErr_Clear();
    reason_ = BreakReason{kind, std::move(what), {}};
    locate_(context_, *reason_);
  }
  PyErr_SetString(known().break_type, reason_->what.c_str());
  return nullptr;
}

bool Breaks::under_way() {
  if (!reason_) return false;
  if (!PyErr_Occurred() || !PyErr_ExceptionMatches(known().break_type))
    PyErr_SetString(known().break_type, reason_->what.c_str());
  return true;
}

void Breaks::keep_defect(std::exception_ptr defect) {
  if (!defect_) defect_ = std::move(defect);
  raise(BreakKind::kInternal, "internal error");
}

void Breaks::rethrow_defect() {
  if (defect_) {
    PyErr_Clear();
    std::rethrow_exception(defect_);
  }
}

Ref take_exception() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (!type) return {};
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return Ref::steal(value);
}

void restore_exception(Ref exception) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(exception.get()));
  PyObject* traceback = PyException_GetTraceback(exception.get());
  Py_INCREF(type);
  PyErr_Restore(type, exception.release(), traceback);
}

std::string describe_exception(PyObject* exception) {
  std::string text = Py_TYPE(exception)->tp_name;
  Ref message = Ref::steal(PyObject_Str(exception));
  const char* utf8 = message ? PyUnicode_AsUTF8(message.get()) : nullptr;
  if (!utf8) {
    PyErr_Clear();
    return text;
  }
  return *utf8 ? text + ": " + utf8 : text;
}

}  // namespace braze::capture
