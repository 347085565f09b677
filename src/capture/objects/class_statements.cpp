#include "capture/objects/class_statements.h"

#include "capture/calls/native.h"
#include "capture/frames/instructions.h"
#include "capture/known.h"
#include "capture/objects/variables.h"
#include "capture/trace_context.h"

namespace braze::capture {

using cpython::Instruction;
using cpython::Opcode;

Tracked build_class(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                    PyObject* kwnames) {
  if (count < 2 || !trace.world.made_function(args[0].get()))
    return trace.refuse(BreakKind::kClassStatement, "a class whose body is not traced code");
  Tracked made = call_native(trace, callable.get(), args, count, kwnames, false);
  if (made) note_class(trace, made.get());
  return made;
}

void note_class(TraceContext& trace, PyObject* made) {
  if (!PyType_Check(made)) return;
  trace.world.mark_created(made);
  trace.made_class = true;
}

// What the namespace of the class body has for `name`; empty, with nothing pending, if nothing.
static Tracked name_in(TraceContext& trace, Frame& frame, PyObject* name) {
  PyObject* names = frame.names.get();
  if (PyDict_CheckExact(names)) {
    PyObject* value = PyDict_GetItemWithError(names, name);
    return value ? trace.world.wrap(value) : Tracked();
  }
  Ref value = Ref::steal(PyObject_GetItem(names, name));
  if (value) return trace.world.wrap(std::move(value));
  if (!trace.breaks.under_way() && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Clear();
  return {};
}

static Tracked load_name(TraceContext& trace, Frame& frame, PyObject* name) {
  Tracked value = name_in(trace, frame, name);
  return value || PyErr_Occurred() ? std::move(value) : load_global(trace, frame, name);
}

bool run_class_instruction(TraceContext& trace, Frame& frame, const Instruction& in) {
  auto push = [&](Tracked tracked) {
    if (!tracked) return false;
    frame.stack.push_back(std::move(tracked));
    return true;
  };
  auto pop = [&] {
    Tracked tracked = std::move(frame.stack.back());
    frame.stack.pop_back();
    return tracked;
  };
  if (in.op == Opcode::kLoadBuildClass) {
    PyObject* build = PyDict_GetItemWithError(frame.builtins.get(), names().build_class);
    if (build) return push(Tracked::borrow(build));
    PyErr_SetString(PyExc_NameError, "__build_class__ not found");
    return false;
  }
  PyObject* names = frame.names.get();
  if (!names || trace.world.source_of(names) ||
      (!PyDict_CheckExact(names) && trace.world.is_outside(names)))
    return trace.breaks.refuse(BreakKind::kClassStatement,
                               "names of a class body in a namespace from outside");
  PyCodeObject* code = frame.code();
  switch (in.op) {
    case Opcode::kLoadName:
      return push(load_name(trace, frame, PyTuple_GET_ITEM(code->co_names, in.arg)));
    case Opcode::kStoreName: {
      Tracked value = pop();
      PyObject* name = PyTuple_GET_ITEM(code->co_names, in.arg);
      int status = PyObject_SetItem(names, name, value.get());
      return status == 0 && !trace.breaks.under_way();
    }
    case Opcode::kDeleteName: {
      PyObject* name = PyTuple_GET_ITEM(code->co_names, in.arg);
      if (PyObject_DelItem(names, name) == 0) return !trace.breaks.under_way();
      if (!trace.breaks.under_way() && PyErr_ExceptionMatches(PyExc_KeyError))
        PyErr_Format(PyExc_NameError, "name '%U' is not defined", name);
      return false;
    }
    case Opcode::kLoadLocals:
      return push(Tracked::borrow(names));
    case Opcode::kSetupAnnotations: {
      static PyObject* annotations = PyUnicode_InternFromString("__annotations__");
      if (name_in(trace, frame, annotations)) return true;
      if (PyErr_Occurred()) return false;
      Ref made = Ref::steal(PyDict_New());
      trace.world.mark_created(made.get());
      return PyObject_SetItem(names, annotations, made.get()) == 0;
    }
    case Opcode::kLoadClassDeref:
    case Opcode::kLoadFromDictOrDeref: {
      if (in.op == Opcode::kLoadFromDictOrDeref) pop();
      PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, in.arg);
      Tracked value = name_in(trace, frame, name);
      if (!value && PyErr_Occurred()) return false;
      return push(value ? std::move(value) : load_deref(trace, frame, in.arg));
    }
    case Opcode::kLoadFromDictOrGlobals:
      pop();
      return push(load_name(trace, frame, PyTuple_GET_ITEM(code->co_names, in.arg)));
    default:
      return unsupported_instruction(trace, frame, in);
  }
}

}  // namespace braze::capture
