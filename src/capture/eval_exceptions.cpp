// raise, the search for a handler, with.
#include "capture/evaluator.h"
#include "capture/known.h"

extern "C" PyAPI_FUNC(void) _PyTraceback_Add(const char*, const char*, int);

namespace braze::capture {

using cpython::ExceptionHandler;
using cpython::Opcode;

void Evaluator::raise(int count, Frame& frame) {
  auto pop = [&] {
    Slot slot = std::move(frame.stack.back());
    frame.stack.pop_back();
    return slot;
  };
  Slot cause = count == 2 ? pop() : Slot();
  Slot exception = count ? pop() : Slot();
  if (!count) {
    PyObject* handled = PyErr_GetHandledException();
    if (!handled || handled == Py_None) {
      PyErr_SetString(PyExc_RuntimeError, "No active exception to reraise");
      return;
    }
    exception = Slot::steal(handled);
    if (!world_.is_created(exception.get())) {
      raise_break(BreakKind::kOutsideException, "an exception object from outside is raised");
      return;
    }
    restore_exception(exception.object);
    return;
  }
  if (PyExceptionClass_Check(exception.get())) {
    Slot cls = exception;
    exception = call(cls, nullptr, 0, nullptr);
    if (!exception) return;
    if (!PyExceptionInstance_Check(exception.get())) {
      PyErr_Format(PyExc_TypeError,
                   "calling %R should have returned an instance of BaseException, not %R",
                   cls.get(), Py_TYPE(exception.get()));
      return;
    }
  }
  if (!PyExceptionInstance_Check(exception.get())) {
    PyErr_SetString(PyExc_TypeError, "exceptions must derive from BaseException");
    return;
  }
  // One that the program raises itself; that of the user at the keyboard ends the capture.
  if (PyErr_GivenExceptionMatches(exception.get(), PyExc_KeyboardInterrupt)) {
    raise_break(BreakKind::kException, "KeyboardInterrupt is raised");
    return;
  }
  if (world_.source_of(exception)) {
    raise_break(BreakKind::kOutsideException, "an exception object from outside is raised");
    return;
  }
  if (cause) {
    if (PyExceptionClass_Check(cause.get())) {
      Slot cls = cause;
      cause = call(cls, nullptr, 0, nullptr);
      if (!cause) return;
    }
    if (cause.get() == Py_None) {
      PyException_SetCause(exception.get(), nullptr);
    } else if (PyExceptionInstance_Check(cause.get())) {
      PyException_SetCause(exception.get(), cause.object.release());
    } else {
      PyErr_SetString(PyExc_TypeError, "exception causes must derive from BaseException");
      return;
    }
  }
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
}

bool Evaluator::unwind(Frame& frame) {
  if (breaks_.under_way() || stopped_) {
    world_.silence_finalisers();  // the trace is thrown away
    return false;
  }
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "the evaluator lost an exception");
  if (Recording::OpBreak op; recording_.take_break(op)) {
    breaks_.raise(op.kind, op.what);
    return false;
  }
  // Not the program's business: they end the capture.
  if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
    interrupted_ = true;
    return false;
  }
  if (PyErr_ExceptionMatches(PyExc_MemoryError)) {
    raise_break(BreakKind::kException, "MemoryError");
    return false;
  }
  int at = frame.current();
  PyCodeObject* code = frame.code();
  if (frame.info->decoded->instructions[static_cast<size_t>(at)].op != Opcode::kReraise)
    _PyTraceback_Add(PyUnicode_AsUTF8(code->co_name), PyUnicode_AsUTF8(code->co_filename),
                     frame.line());
  const ExceptionHandler* handler = frame.info->decoded->handler(at);
  if (!handler) return false;
  Ref exception = take_exception();
  frame.stack.resize(static_cast<size_t>(handler->depth));
  if (handler->push_lasti)
    frame.stack.push_back(Slot::steal(
        PyLong_FromLong(frame.info->decoded->instructions[static_cast<size_t>(at)].offset)));
  frame.stack.push_back(Slot(std::move(exception)));
  frame.kwnames = Ref();
  frame.pc = handler->target;
  return true;
}

bool Evaluator::check_exception_match(Frame& frame) {
  Slot type = std::move(frame.stack.back());
  frame.stack.pop_back();
  auto is_exception = [](PyObject* o) { return PyType_Check(o) && PyExceptionClass_Check(o); };
  bool valid = is_exception(type.get());
  if (PyTuple_Check(type.get())) {
    if (world_.source_of(type) && !world_.read_all(type.get())) return false;
    valid = true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type.get()); ++i)
      valid = valid && is_exception(PyTuple_GET_ITEM(type.get(), i));
  }
  if (!valid) {
    PyErr_SetString(PyExc_TypeError,
                    "catching classes that do not inherit from BaseException is not allowed");
    return false;
  }
  int matches = PyErr_GivenExceptionMatches(frame.stack.back().get(), type.get());
  frame.stack.push_back(Slot::borrow(matches ? Py_True : Py_False));
  return true;
}

// (manager -- exit entered)
bool Evaluator::enter_with(Frame& frame) {
  Slot manager = std::move(frame.stack.back());
  frame.stack.pop_back();
  Slot enter = special_method(manager, names().enter);
  Slot exit = enter ? special_method(manager, names().exit) : Slot();
  if (!exit) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError))
      PyErr_Format(PyExc_TypeError,
                   "'%.200s' object does not support the context manager protocol%s",
                   Py_TYPE(manager.get())->tp_name, enter ? " (missed __exit__ method)" : "");
    return false;
  }
  Slot entered = call(enter, nullptr, 0, nullptr);
  if (!entered) return false;
  frame.stack.push_back(std::move(exit));
  frame.stack.push_back(std::move(entered));
  return true;
}

}  // namespace braze::capture
