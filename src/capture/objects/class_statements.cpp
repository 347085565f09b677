// Class statements. CPython's __build_class__ makes the class; the frame of its body comes to the
// hook and is evaluated over the namespace that the metaclass prepared.
#include "capture/evaluator.h"
#include "capture/known.h"

namespace braze::capture {

using cpython::Instruction;
using cpython::Opcode;

Slot Evaluator::build_class(const Slot& callable, Slot* args, size_t count, PyObject* kwnames) {
  if (count < 2 || !world_.made_function(args[0].get()))
    return refuse(BreakKind::kClassStatement, "a class whose body is not traced code");
  Slot made = call_native(callable.get(), args, count, kwnames, false);
  if (made) note_class(made.get());
  return made;
}

// A class of the trace stands in the list of subclasses of its bases for as long as it lives.
void Evaluator::note_class(PyObject* made) {
  if (!PyType_Check(made)) return;
  world_.mark_created(made);
  made_class_ = true;
}

// What the namespace of the class body has for `name`; empty, with nothing pending, if nothing.
Slot Evaluator::name_in(Frame& frame, PyObject* name) {
  PyObject* names = frame.names.get();
  if (PyDict_CheckExact(names)) {
    PyObject* value = PyDict_GetItemWithError(names, name);
    return value ? world_.wrap(value) : Slot();
  }
  Ref value = Ref::steal(PyObject_GetItem(names, name));
  if (value) return world_.wrap(std::move(value));
  if (!breaks_.under_way() && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Clear();
  return {};
}

Slot Evaluator::load_name(Frame& frame, PyObject* name) {
  Slot value = name_in(frame, name);
  return value || PyErr_Occurred() ? std::move(value) : load_global(frame, name);
}

bool Evaluator::run_class_instruction(Frame& frame, const Instruction& in) {
  auto push = [&](Slot slot) {
    if (!slot) return false;
    frame.stack.push_back(std::move(slot));
    return true;
  };
  auto pop = [&] {
    Slot slot = std::move(frame.stack.back());
    frame.stack.pop_back();
    return slot;
  };
  if (in.op == Opcode::kLoadBuildClass) {
    PyObject* build = PyDict_GetItemWithError(frame.builtins.get(), names().build_class);
    if (build) return push(Slot::borrow(build));
    PyErr_SetString(PyExc_NameError, "__build_class__ not found");
    return false;
  }
  PyObject* names = frame.names.get();
  if (!names || world_.source_of(names) || (!PyDict_CheckExact(names) && world_.is_outside(names)))
    return breaks_.refuse(BreakKind::kClassStatement,
                          "names of a class body in a namespace from outside");
  PyCodeObject* code = frame.code();
  switch (in.op) {
    case Opcode::kLoadName:
      return push(load_name(frame, PyTuple_GET_ITEM(code->co_names, in.arg)));
    case Opcode::kStoreName: {
      Slot value = pop();
      PyObject* name = PyTuple_GET_ITEM(code->co_names, in.arg);
      int status = PyObject_SetItem(names, name, value.get());
      return status == 0 && !breaks_.under_way();
    }
    case Opcode::kDeleteName: {
      PyObject* name = PyTuple_GET_ITEM(code->co_names, in.arg);
      if (PyObject_DelItem(names, name) == 0) return !breaks_.under_way();
      if (!breaks_.under_way() && PyErr_ExceptionMatches(PyExc_KeyError))
        PyErr_Format(PyExc_NameError, "name '%U' is not defined", name);
      return false;
    }
    case Opcode::kLoadLocals:
      return push(Slot::borrow(names));
    case Opcode::kSetupAnnotations: {
      static PyObject* annotations = PyUnicode_InternFromString("__annotations__");
      if (name_in(frame, annotations)) return true;
      if (PyErr_Occurred()) return false;
      Ref made = Ref::steal(PyDict_New());
      world_.mark_created(made.get());
      return PyObject_SetItem(names, annotations, made.get()) == 0;
    }
    case Opcode::kLoadClassDeref:
    case Opcode::kLoadFromDictOrDeref: {
      if (in.op == Opcode::kLoadFromDictOrDeref) pop();
      PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, in.arg);
      Slot value = name_in(frame, name);
      if (!value && PyErr_Occurred()) return false;
      return push(value ? std::move(value) : load_deref(frame, in.arg));
    }
    case Opcode::kLoadFromDictOrGlobals:
      pop();
      return push(load_name(frame, PyTuple_GET_ITEM(code->co_names, in.arg)));
    default:
      return unsupported_instruction(frame, in);
  }
}

}  // namespace braze::capture
