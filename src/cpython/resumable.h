// Generators (coroutines, asynchronous generators) whose frames come to a driver each time that
// they are resumed, whoever resumes them: `next`, a `for` loop, C code, an event loop.
//
// There is no hook. While such a generator waits, its frame stands in a copy of its code object in
// which the instructions behind the yield call a tiny Python function, the gate. CPython carries
// out that call within the evaluation that is under way, for which it puts all of the generator's
// frame into memory; the gate calls the driver, which changes the frame as it likes, and CPython
// goes on from there: to the next yield, return or raise, which it carries out itself. So the
// generator is a generator like any other.
//
// What differs from one that was not taken over: while it waits, the f_code and f_lasti of its
// frame are the copy's.
//
// A generator stays with CPython for good where an exception is thrown into it and caught, where a
// hook is installed or a trace function watches when it is resumed (CPython makes another
// evaluation for the gate under a hook), or where the driver says so.
#pragma once

#include <memory>

#include "cpython/frame.h"

namespace braze::cpython {

class ResumePoints;
struct Suspension;

class Resumable {
 public:
  // As Driver of live_frame.h; `suspension` is for the LiveFrame.
  using Driver = PyObject* (*)(void* context, PyThreadState* thread, FrameView view,
                               const Suspension& suspension);

  // For generators of `code`. Gives their frames room for the call of the gate, so only those that
  // are made from now on can be taken over. Throws InternalError if the code cannot be copied.
  Resumable(PyCodeObject* code, Driver driver, std::shared_ptr<void> context);
  ~Resumable();
  Resumable(const Resumable&) = delete;

  // Whether this version of CPython can do it.
  static bool is_possible();

  PyCodeObject* code() const;
  // `generator` is left as it is unless it is one of this code that has not started.
  void take_over(PyObject* generator) const;

 private:
  std::shared_ptr<const ResumePoints> points_;
  Ref copy_;
};

// A copy in which a generator waits: its frame comes to a driver by itself.
bool comes_to_driver(PyCodeObject* code);

}  // namespace braze::cpython
