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

// What `type` has, which a metaclass may not.
static PyObject* subclasses_method() {
  static PyObject* const method =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyType_Type), "__subclasses__");
  return method;
}

PyObject* whose_subclasses(PyObject* callable, const Tracked* args, size_t count) {
  PyObject* const method = subclasses_method();
  if (callable == method)
    return count == 1 && PyType_Check(args[0].get()) ? args[0].get() : nullptr;
  if (count != 0 || !PyCFunction_Check(callable)) return nullptr;
  const auto* bound = reinterpret_cast<PyCFunctionObject*>(callable);
  return bound->m_ml == reinterpret_cast<PyMethodDescrObject*>(method)->d_method ? bound->m_self
                                                                                 : nullptr;
}

// A guard compares tuples, not lists.
static PyObject* tuple_of_subclasses(PyObject* cls, PyObject*) {
  const Ref list = Ref::steal(PyObject_CallOneArg(subclasses_method(), cls));
  return list ? PyList_AsTuple(list.get()) : nullptr;
}

Tracked subclasses(TraceContext& trace, PyObject* cls) {
  if (trace.made_class)
    return trace.refuse(BreakKind::kNativeCall,
                        "the subclasses of a class, where the traced code makes classes");
  static PyMethodDef read = {"__subclasses__", tuple_of_subclasses, METH_NOARGS, nullptr};
  const Ref reads = Ref::steal(PyCFunction_New(&read, cls));
  const Ref found = Ref::steal(reads ? PyObject_CallNoArgs(reads.get()) : nullptr);
  Ref list = Ref::steal(found ? PySequence_List(found.get()) : nullptr);
  if (!list) return {};
  trace.guards.add(GuardKind::kValue,
                   trace.guards.source(SourceKind::kNative, nullptr, reads.get()), found.get());
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(found.get()); ++i) {
    PyObject* one = PyTuple_GET_ITEM(found.get(), i);
    if (!trace.world.source_of(one)) trace.world.set_origin(one, trace.guards.pinned(one));
  }
  trace.world.hold(Ref::borrow(found.get()));
  return result_of_native(trace, std::move(list));
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
