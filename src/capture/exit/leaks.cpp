#include "capture/exit/leaks.h"

#include "capture/known.h"
#include "capture/recording/recording.h"
#include "cpython/exception.h"
#include "cpython/text.h"
#include "trace/fake_tensor.h"

namespace braze::capture {

using cpython::Ref;

namespace {

int64_t live_fakes() { return trace::FakeTensorImpl::live_count.load(std::memory_order_relaxed); }

// "dict of a 'Normal' object" and the like, for the first tensor that is found.
std::string holders() {
  Ref gc = Ref::steal(PyImport_ImportModule("gc"));
  Ref objects = Ref::steal(PyObject_CallNoArgs(known().gc_get_objects));
  for (Py_ssize_t i = 0; objects && gc && i < PyList_GET_SIZE(objects.get()); ++i) {
    Ref object = Ref::borrow(PyList_GET_ITEM(objects.get(), i));
    if (!is_fake(object.get())) continue;
    PyList_SetItem(objects.get(), i, Py_NewRef(Py_None));
    Ref referrers = Ref::steal(PyObject_CallMethod(gc.get(), "get_referrers", "O", object.get()));
    std::string text;
    for (Py_ssize_t k = 0; referrers && k < PyList_GET_SIZE(referrers.get()); ++k) {
      PyObject* holder = PyList_GET_ITEM(referrers.get(), k);
      if (holder == objects.get()) continue;
      if (!text.empty()) text += ", ";
      text += std::string("a '") + Py_TYPE(holder)->tp_name + "'";
      if (!PyDict_Check(holder)) continue;
      Py_ssize_t position = 0;
      PyObject *key, *value;
      while (PyDict_Next(holder, &position, &key, &value))
        if (value == object.get() && PyUnicode_Check(key))
          text += std::string(" under '") + cpython::utf8_of(key) + "'";
    }
    return text.empty() ? "something in C" : text;
  }
  return "something in C";
}

}  // namespace

LeakCheck::LeakCheck() : before_(live_fakes()) {}

std::string LeakCheck::leaks() const {
  if (live_fakes() <= before_) return {};
  const cpython::SavedException pending;
  // Cycles that the trace made are garbage by now.
  Ref zero = Ref::steal(PyLong_FromLong(0));
  Ref done = Ref::steal(PyObject_CallOneArg(known().gc_collect, zero.get()));
  PyErr_Clear();
  if (live_fakes() <= before_) return {};
  std::string text = holders();
  PyErr_Clear();
  return text;
}

}  // namespace braze::capture
