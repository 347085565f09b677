// Interpreter frames: reading one, entering one in the middle, and the evaluation hook.
// One source for each CPython version implements this (frame_311.cpp, ...); no other file sees
// CPython's internal structs.
#pragma once

#include <span>
#include <vector>

#include "cpython/ref.h"

struct _PyInterpreterFrame;

namespace braze::cpython {

namespace internal {
struct Evaluator;
}

// A frame that is about to start (or generator about to resume), as a hook sees it. All borrowed.
class FrameView {
 public:
  explicit FrameView(_PyInterpreterFrame* frame) : frame_(frame) {}
  _PyInterpreterFrame* raw() const { return frame_; }
  PyCodeObject* code() const;
  PyObject* function() const;
  PyObject* globals() const;
  PyObject* builtins() const;
  PyObject* names() const;  // the namespace of a class body or module; null for functions
  // localsplus, co_nlocalsplus entries, unset ones null.
  std::span<PyObject* const> locals() const;
  // The value stack, bottom to top. Only of a frame that is not running: about to start or resume.
  std::span<PyObject* const> stack() const;
  int offset() const;                              // code unit of the next instruction
  bool at_start() const { return offset() == 0; }  // no instruction has run yet
  bool is_generator() const;                       // owned by a generator or coroutine

 private:
  _PyInterpreterFrame* frame_;
};

// What a frame needs to go on in the middle. References are new ones, taken over by the frame.
struct FrameState {
  int offset = 0;           // code unit of the instruction to run next
  std::vector<Ref> locals;  // co_nlocalsplus entries; empty Ref: unset
  std::vector<Ref> stack;   // bottom to top; empty Ref: NULL
  bool raise = false;       // the pending exception is raised at that instruction
};

// The standing hook of a trace. While a scope lives, every Python frame that starts on any thread
// of this interpreter, and every generator that goes on, comes to `hook`, which returns a new
// reference, null with an exception set, or the result of `evaluate_natively` or `evaluate_from`.
// What was installed before is put back by the destructor, and other threads' frames are passed on
// to it without a look. Scopes of one thread nest; the innermost one is asked.
// A function's frame need not be evaluated (it is cleared then). A generator's must be: to yield or
// to return, go on from the YIELD_VALUE or RETURN_VALUE with the value on the stack.
using Hook = PyObject* (*)(void* context, PyThreadState* thread, FrameView frame, bool throwing);
class HookScope {
 public:
  HookScope(Hook hook, void* context);
  ~HookScope();
  HookScope(const HookScope&) = delete;

 private:
  Hook hook_;
  void* context_;
  PyThreadState* thread_;
  HookScope* outer_;
  friend struct internal::Evaluator;
};
// From inside a hook: lets CPython evaluate the frame (nested frames come to the hook again).
PyObject* evaluate_natively(PyThreadState* thread, FrameView frame, bool throwing);
// The same from the middle. An inconsistent state throws InternalError before anything happens.
PyObject* evaluate_from(PyThreadState* thread, FrameView frame, FrameState state);

// Calls `function`, a Python function or a method of one that is no generator, with these
// arguments, but its frame starts in `state` instead of at the beginning. Catches the frame with a
// one-shot hook: no other code runs hooked, except where a HookScope says so. If the arguments do
// not bind, CPython's TypeError is pending.
PyObject* call_from(PyObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames,
                    FrameState state);

// Runs `function(*args)` with no hook at all on this thread during the call, whatever is installed.
PyObject* call_unhooked(PyObject* function, PyObject* const* args, size_t nargsf,
                        PyObject* kwnames);

// Binds call arguments as CPython would, into `co_argcount + co_kwonlyargcount (+1 *args) (+1
// **kwargs)` entries (order of co_varnames). Defaults are taken from the function. Borrowed
// references; what had to be made (*args tuple, **kwargs dict) is owned by `keep`. False, with no
// exception pending, when the arguments do not fit: call the function, CPython raises its own
// message.
bool bind_arguments(PyFunctionObject* function, PyObject* const* args, size_t nargsf,
                    PyObject* kwnames, PyObject** bound, std::vector<Ref>& keep);
int parameter_count(const PyCodeObject* code);

}  // namespace braze::cpython
