#include "capture/frames/exceptions.h"

#include "capture/calls/calls.h"
#include "capture/calls/native.h"
#include "capture/frames/entry_state.h"
#include "capture/known.h"
#include "capture/objects/super.h"
#include "capture/symbols/integers.h"
#include "capture/trace_context.h"
#include "cpython/text.h"

extern "C" PyAPI_FUNC(void) _PyTraceback_Add(const char*, const char*, int);

namespace braze::capture {

using cpython::ExceptionHandler;
using cpython::Opcode;

namespace {

bool is_group(PyObject* exception) {
  return PyObject_TypeCheck(exception, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup)) !=
         0;
}

// What except* may name: exception classes that are no groups.
bool is_valid_in_except_star(PyObject* type) {
  const bool is_class = PyType_Check(type) && PyExceptionClass_Check(type);
  if (!is_class) {
    PyErr_SetString(PyExc_TypeError,
                    "catching classes that do not inherit from BaseException is not allowed");
  } else if (PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type),
                              reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup))) {
    PyErr_SetString(PyExc_TypeError,
                    "catching ExceptionGroup with except* is not allowed. Use except instead.");
  } else {
    return true;
  }
  return false;
}

// They are parts of one group that was raised.
bool raised_together(PyObject* a, PyObject* b) {
  if (!is_group(a) || !is_group(b)) return false;
  auto* x = reinterpret_cast<PyBaseExceptionObject*>(a);
  auto* y = reinterpret_cast<PyBaseExceptionObject*>(b);
  return x->traceback == y->traceback && x->cause == y->cause && x->context == y->context &&
         x->notes == y->notes;
}

void add_leaves(PyObject* exception, PyObject* leaves) {
  if (!is_group(exception)) {
    const Ref id = Ref::steal(PyLong_FromVoidPtr(exception));
    if (id) PySet_Add(leaves, id.get());
    return;
  }
  const Ref parts = Ref::steal(PyObject_GetAttrString(exception, "exceptions"));
  for (Py_ssize_t i = 0; parts && i < PyTuple_GET_SIZE(parts.get()); ++i)
    add_leaves(PyTuple_GET_ITEM(parts.get(), i), leaves);
}

// Guards what a group from outside holds, as its parts are new groups of the same exceptions.
bool read_group(TraceContext& trace, PyObject* group) {
  return trace.world.is_created(group) || read_deeply(trace, group, Look::kDeep);
}

// `group` with `parts` only, as if it had been raised with them; null with an exception pending.
Ref subset(PyObject* group, PyObject* parts) {
  Ref made = Ref::steal(PyObject_CallMethod(group, "derive", "(O)", parts));
  if (!made) return {};
  if (!is_group(made.get())) {
    PyErr_SetString(PyExc_TypeError, "derive must return an instance of BaseExceptionGroup");
    return {};
  }
  if (const Ref traceback = Ref::steal(PyException_GetTraceback(group)))
    PyException_SetTraceback(made.get(), traceback.get());
  PyException_SetContext(made.get(), PyException_GetContext(group));
  PyException_SetCause(made.get(), PyException_GetCause(group));
  const Ref notes = Ref::steal(PyObject_GetAttrString(group, "__notes__"));
  if (!notes) {
    PyErr_Clear();
    return made;
  }
  const Ref copy = Ref::steal(PySequence_List(notes.get()));
  if (copy && PyObject_SetAttrString(made.get(), "__notes__", copy.get()) == 0) return made;
  return {};
}

// What `leaves` (a set of addresses) keeps of `exception`; None: nothing.
Ref only_leaves(PyObject* exception, PyObject* leaves) {
  if (!is_group(exception)) {
    const Ref id = Ref::steal(PyLong_FromVoidPtr(exception));
    const int found = id ? PySet_Contains(leaves, id.get()) : -1;
    return found < 0 ? Ref() : Ref::borrow(found ? exception : Py_None);
  }
  const Ref parts = Ref::steal(PyObject_GetAttrString(exception, "exceptions"));
  const Ref kept = Ref::steal(PyList_New(0));
  for (Py_ssize_t i = 0; parts && kept && i < PyTuple_GET_SIZE(parts.get()); ++i) {
    const Ref part = only_leaves(PyTuple_GET_ITEM(parts.get(), i), leaves);
    if (!part || (part.get() != Py_None && PyList_Append(kept.get(), part.get()) < 0)) return {};
  }
  if (!parts || !kept) return {};
  return PyList_GET_SIZE(kept.get()) ? subset(exception, kept.get()) : Ref::borrow(Py_None);
}

}  // namespace

void raise_varargs(TraceContext& trace, int count, Frame& frame) {
  auto pop = [&] {
    Tracked tracked = std::move(frame.stack.back());
    frame.stack.pop_back();
    return tracked;
  };
  Tracked cause = count == 2 ? pop() : Tracked();
  Tracked exception = count ? pop() : Tracked();
  if (!count) {
    PyObject* handled = PyErr_GetHandledException();
    if (!handled || handled == Py_None) {
      PyErr_SetString(PyExc_RuntimeError, "No active exception to reraise");
      return;
    }
    exception = Tracked::steal(handled);
    if (!trace.world.is_created(exception.get())) {
      trace.raise_break(BreakKind::kOutsideException, "an exception object from outside is raised");
      return;
    }
    restore_exception(exception.object);
    return;
  }
  if (PyExceptionClass_Check(exception.get())) {
    Tracked cls = exception;
    exception = call(trace, cls, nullptr, 0, nullptr);
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
    trace.raise_break(BreakKind::kException, "KeyboardInterrupt is raised");
    return;
  }
  if (trace.world.source_of(exception)) {
    trace.raise_break(BreakKind::kOutsideException, "an exception object from outside is raised");
    return;
  }
  if (cause) {
    if (PyExceptionClass_Check(cause.get())) {
      Tracked cls = cause;
      cause = call(trace, cls, nullptr, 0, nullptr);
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

bool unwind(TraceContext& trace, Frame& frame) {
  if (trace.breaks.under_way() || trace.progress.stopped) {
    trace.world.silence_finalisers();  // the trace is thrown away
    return false;
  }
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "the evaluator lost an exception");
  if (Recording::OpBreak op; trace.recording.take_break(op)) {
    trace.breaks.raise(op.kind, op.what);
    return false;
  }
  // Not the program's business: they end the capture.
  if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
    trace.interrupted = true;
    return false;
  }
  if (PyErr_ExceptionMatches(PyExc_MemoryError)) {
    trace.raise_break(BreakKind::kException, "MemoryError");
    return false;
  }
  int at = frame.current();
  PyCodeObject* code = frame.code();
  const cpython::Instruction& in = frame.info->decoded->instructions[static_cast<size_t>(at)];
  const bool raised_again =
      in.op == Opcode::kReraise || (in.op == Opcode::kRaiseVarargs && in.arg == 0);
  if (!raised_again)
    _PyTraceback_Add(cpython::utf8_of(code->co_name), cpython::utf8_of(code->co_filename),
                     frame.line());
  const ExceptionHandler* handler = frame.info->decoded->handler(at);
  if (!handler) return false;
  Ref exception = take_exception();
  if (!make_arguments_concrete(trace, exception.get())) return false;
  for (auto depth = static_cast<size_t>(handler->depth); frame.stack.size() > depth;) {
    if (!may_drop(trace, frame.stack.back())) return false;
    frame.stack.pop_back();
  }
  if (handler->push_lasti)
    frame.stack.push_back(Tracked::steal(
        PyLong_FromLong(frame.info->decoded->instructions[static_cast<size_t>(at)].offset)));
  frame.stack.push_back(Tracked(std::move(exception)));
  frame.kwnames = Ref();
  frame.pc = handler->target;
  return true;
}

bool check_exception_match(TraceContext& trace, Frame& frame) {
  Tracked type = std::move(frame.stack.back());
  frame.stack.pop_back();
  auto is_exception = [](PyObject* o) { return PyType_Check(o) && PyExceptionClass_Check(o); };
  bool valid = is_exception(type.get());
  if (PyTuple_Check(type.get())) {
    if (trace.world.source_of(type) && !trace.world.read_all(type.get())) return false;
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
  frame.stack.push_back(Tracked::borrow(matches ? Py_True : Py_False));
  return true;
}

bool check_group_match(TraceContext& trace, Frame& frame) {
  const Tracked type = std::move(frame.stack.back());
  frame.stack.pop_back();
  if (PyTuple_Check(type.get())) {
    if (trace.world.source_of(type) && !trace.world.read_all(type.get())) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type.get()); ++i)
      if (!is_valid_in_except_star(PyTuple_GET_ITEM(type.get(), i))) return false;
  } else if (!is_valid_in_except_star(type.get())) {
    return false;
  }
  PyObject* exception = frame.stack.back().get();
  Ref match = Ref::borrow(Py_None), rest = Ref::borrow(Py_None);
  if (exception != Py_None && PyErr_GivenExceptionMatches(exception, type.get())) {
    match =
        is_group(exception)
            ? Ref::borrow(exception)
            : Ref::steal(PyObject_CallFunction(PyExc_BaseExceptionGroup, "s(O)", "", exception));
  } else if (exception != Py_None && is_group(exception)) {
    if (!read_group(trace, exception)) return false;
    const Ref parts = Ref::steal(PyObject_CallMethod(exception, "split", "(O)", type.get()));
    if (!parts || trace.breaks.under_way()) return false;
    if (!PyTuple_CheckExact(parts.get()) || PyTuple_GET_SIZE(parts.get()) != 2)
      return trace.breaks.refuse(BreakKind::kUnsupportedBytecode,
                                 "except* of a group that splits oddly");
    match = Ref::borrow(PyTuple_GET_ITEM(parts.get(), 0));
    rest = Ref::borrow(PyTuple_GET_ITEM(parts.get(), 1));
  }
  if (!match) return false;
  if (match.get() != Py_None) {
    frame.stack.back() = Tracked(std::move(rest));
    PyErr_SetHandledException(match.get());
  }
  frame.stack.push_back(Tracked(std::move(match)));
  return true;
}

Tracked exceptions_to_raise(TraceContext& trace, const Tracked& original, const Tracked& raised) {
  PyObject* list = raised.get();
  const Ref leaves = Ref::steal(PySet_New(nullptr));
  Tracked only = Tracked::borrow(Py_None);
  for (Py_ssize_t i = 0; leaves && i < PyList_GET_SIZE(list); ++i) {
    PyObject* exception = PyList_GET_ITEM(list, i);
    if (exception == Py_None) continue;
    if (!is_group(original.get())) {
      only = Tracked::borrow(exception);
      continue;
    }
    // How it is joined with the rest depends on the version of Python.
    if (!raised_together(exception, original.get()))
      return trace.refuse(BreakKind::kUnsupportedBytecode, "an exception is raised in except*");
    add_leaves(exception, leaves.get());
  }
  if (!leaves) return {};
  if (PySet_GET_SIZE(leaves.get()) == 0) return only;
  if (!read_group(trace, original.get())) return {};
  Ref rest = only_leaves(original.get(), leaves.get());
  if (!rest || trace.breaks.under_way()) return {};
  return Tracked(std::move(rest));
}

bool enter_with(TraceContext& trace, Frame& frame) {
  Tracked manager = std::move(frame.stack.back());
  frame.stack.pop_back();
  Tracked enter = special_method(trace, manager, names().enter);
  Tracked exit = enter ? special_method(trace, manager, names().exit) : Tracked();
  if (!exit) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError))
      PyErr_Format(PyExc_TypeError,
                   "'%.200s' object does not support the context manager protocol%s",
                   Py_TYPE(manager.get())->tp_name, enter ? " (missed __exit__ method)" : "");
    return false;
  }
  Tracked entered = call(trace, enter, nullptr, 0, nullptr);
  if (!entered) return false;
  frame.stack.push_back(std::move(exit));
  frame.stack.push_back(std::move(entered));
  return true;
}

}  // namespace braze::capture
