// What is in force around one trace, and put back behind it.
#pragma once

#include <pthread.h>

#include "capture/known.h"
#include "cpython/exception.h"
#include "cpython/ref.h"

namespace braze::capture {

using cpython::Ref;

// Off during a trace: finalisers of cycles would run inside it, and the youngest generation then is
// what the trace made.
class CollectorOff {
 public:
  CollectorOff() : thread_(PyThreadState_Get()) {
    static const int watched = ::pthread_atfork(nullptr, nullptr, end_of_other_thread);
    (void)watched;
    collect();
    was_on_ = PyGC_Disable();
    in_force_ = this;
  }
  ~CollectorOff() {
    in_force_ = nullptr;
    if (collects_after_) {
      const cpython::SavedException pending;
      collect();
    }
    if (was_on_) PyGC_Enable();
  }
  CollectorOff(const CollectorOff&) = delete;

  // What the trace made and is garbage is not to be seen: its classes, which are cycles.
  void collect_after() { collects_after_ = true; }

 private:
  static void collect() {
    Ref zero = Ref::steal(PyLong_FromLong(0));
    Ref done = Ref::steal(PyObject_CallOneArg(known().gc_collect, zero.get()));
    if (!done) PyErr_Clear();
  }

  // In the child of a fork(), whose only thread is the one that called it.
  static void end_of_other_thread() {
    if (!in_force_ || !PyGILState_Check() || in_force_->thread_ == PyThreadState_Get()) return;
    if (in_force_->was_on_) PyGC_Enable();
    in_force_ = nullptr;
  }

  static inline CollectorOff* in_force_ = nullptr;  // at most one; with the GIL
  PyThreadState* thread_;
  bool collects_after_ = false;
  int was_on_ = 0;
};

// Context variables that the traced code sets are set in a copy.
class ContextCopy {
 public:
  ContextCopy() : context_(Ref::steal(PyContext_CopyCurrent())) {
    if (context_ && PyContext_Enter(context_.get()) < 0) context_ = Ref();
  }
  ~ContextCopy() {
    if (!context_) return;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyContext_Exit(context_.get());
    PyErr_Restore(type, value, traceback);
  }
  ContextCopy(const ContextCopy&) = delete;

 private:
  Ref context_;
};

// The exception that is being handled around the call is no business of the trace.
class HandledException {
 public:
  // Of this level only: what is handled around a generator is not the generator's.
  HandledException() : handled_(Ref::borrow(current())) {}
  bool changed() const { return current() != handled_.get(); }
  ~HandledException() { PyErr_SetHandledException(handled_.get()); }
  HandledException(const HandledException&) = delete;

 private:
  static PyObject* current() {
    PyObject* handled = PyThreadState_Get()->exc_info->exc_value;
    return handled == Py_None ? nullptr : handled;
  }
  Ref handled_;
};

}  // namespace braze::capture
