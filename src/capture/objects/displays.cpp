#include "capture/objects/displays.h"

#include "capture/objects/iteration.h"
#include "capture/symbols/integers.h"
#include "capture/trace_context.h"
#include "cpython/text.h"

namespace braze::capture {

using cpython::Instruction;
using cpython::Opcode;

static bool merge_keywords(TraceContext& trace, const Tracked& callable, PyObject* target,
                           PyObject* from);

bool build_display(TraceContext& trace, Frame& frame, const Instruction& in) {
  const int n = in.arg;
  Ref made;
  switch (in.op) {
    case Opcode::kBuildTuple:
      made = Ref::steal(PyTuple_New(n));
      for (int i = n; i--;) PyTuple_SET_ITEM(made.get(), i, frame.pop().object.release());
      return frame.push(Tracked(made));
    case Opcode::kBuildList:
      made = Ref::steal(PyList_New(n));
      for (int i = n; i--;) PyList_SET_ITEM(made.get(), i, frame.pop().object.release());
      break;
    case Opcode::kBuildSet:
      made = Ref::steal(PySet_New(nullptr));
      for (int i = n; i > 0; --i) {
        make_key(trace, frame.peek(i));
        if (PySet_Add(made.get(), frame.peek(i).get()) < 0) return false;
      }
      frame.drop(n);
      break;
    case Opcode::kBuildMap:
      made = Ref::steal(PyDict_New());
      for (int i = n; i > 0; --i) {
        make_key(trace, frame.peek(2 * i));
        if (PyDict_SetItem(made.get(), frame.peek(2 * i).get(), frame.peek(2 * i - 1).get()) < 0)
          return false;
      }
      frame.drop(2 * n);
      break;
    case Opcode::kBuildConstKeyMap: {
      Tracked keys = frame.pop();
      made = Ref::steal(PyDict_New());
      for (int i = 0; i < n; ++i)
        if (PyDict_SetItem(made.get(), PyTuple_GET_ITEM(keys.get(), i), frame.peek(n - i).get()) <
            0)
          return false;
      frame.drop(n);
      break;
    }
    case Opcode::kBuildString: {
      Ref empty = Ref::steal(PyUnicode_New(0, 0));
      Ref parts = Ref::steal(PyList_New(n));
      for (int i = n; i--;) PyList_SET_ITEM(parts.get(), i, frame.pop().object.release());
      return frame.push(Tracked::steal(PyUnicode_Join(empty.get(), parts.get())));
    }
    case Opcode::kBuildSlice: {
      Tracked step = n == 3 ? frame.pop() : Tracked();
      Tracked stop = frame.pop(), start = frame.pop();
      return frame.push(Tracked::steal(PySlice_New(start.get(), stop.get(), step.get())));
    }
    default:
      return false;
  }
  if (!made) return false;
  trace.world.mark_created(made.get());
  return frame.push(Tracked(made));
}

bool extend_display(TraceContext& trace, Frame& frame, const Instruction& in) {
  Tracked value = frame.pop();
  // Where the segment began amid the building, the container is from outside.
  PyObject* target = frame.peek(in.op == Opcode::kMapAdd ? in.arg + 1 : in.arg).get();
  target =
      trace.world.source_of(target) ? trace.world.shadow(target) : trace.world.effective(target);
  if (!target) return false;
  switch (in.op) {
    case Opcode::kListAppend:
      return PyList_Append(target, value.get()) == 0;
    case Opcode::kSetAdd:
      make_key(trace, value);
      return PySet_Add(target, value.get()) == 0;
    case Opcode::kMapAdd: {
      Tracked key = frame.pop();
      make_key(trace, key);
      return PyDict_SetItem(target, key.get(), value.get()) == 0;
    }
    case Opcode::kListExtend: {
      if (!PyList_Check(value.get()) && !PyTuple_Check(value.get())) {
        Ref items = to_list(trace, value);
        if (!items && PyErr_ExceptionMatches(PyExc_TypeError) && !Py_TYPE(value.get())->tp_iter &&
            !PySequence_Check(value.get()))
          PyErr_Format(PyExc_TypeError, "Value after * must be an iterable, not %.200s",
                       Py_TYPE(value.get())->tp_name);
        if (!items) return false;
        value = Tracked(items);
      }
      const Ref items = read_items(trace.world, value.get());
      if (!items) return false;
      Py_ssize_t end = PyList_GET_SIZE(target);
      return PyList_SetSlice(target, end, end, items.get()) == 0;
    }
    case Opcode::kSetUpdate: {
      make_concrete(trace, value);
      // The members of these CPython adds in one, which gives them other places than one after the
      // other, and past an __iter__ of their class.
      const bool in_one = PyAnySet_Check(value.get()) || PyDict_CheckExact(value.get());
      if (in_one && trace.world.source_of(value) && !trace.world.read_all(value.get()))
        return false;
      Ref items = in_one ? own_items(trace.world.effective(value.get())) : to_list(trace, value);
      if (!items) return false;
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
        Tracked item = Tracked::borrow(PyList_GET_ITEM(items.get(), i));
        make_key(trace, item);
        if (!in_one && PySet_Add(target, item.get()) < 0) return false;
      }
      if (!in_one) return true;
      static PyObject* const update =
          PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PySet_Type), "update");
      return bool(Ref::steal(PyObject_CallFunctionObjArgs(
          update, target, trace.world.effective(value.get()), nullptr)));
    }
    default: {  // DictUpdate, DictMerge
      if (!PyDict_Check(value.get()) && trace.world.is_outside(value.get()))
        return trace.breaks.refuse(BreakKind::kMapping, "** of a mapping that is not a dict");
      const Ref items = read_items(trace.world, value.get());
      if (!items) return false;
      PyObject* from = items.get();
      if (in.op == Opcode::kDictUpdate) {
        if (PyDict_Update(target, from) == 0) return true;
        if (PyErr_ExceptionMatches(PyExc_AttributeError))
          PyErr_Format(PyExc_TypeError, "'%.200s' object is not a mapping", Py_TYPE(from)->tp_name);
        return false;
      }
      return merge_keywords(trace, frame.peek(in.arg + 2), target, from);
    }
  }
}

// f(**a, **b): like an update, but a key that is there already is an error.
static bool merge_keywords(TraceContext& trace, const Tracked& callable, PyObject* target,
                           PyObject* from) {
  Ref items;
  // Of a class with an order or an __iter__ of its own, CPython asks its keys().
  if (!PyDict_Check(from) || Py_TYPE(from)->tp_iter != PyDict_Type.tp_iter) {
    items = Ref::steal(PyDict_New());
    if (PyDict_Update(items.get(), from) < 0) {
      if (PyErr_ExceptionMatches(PyExc_AttributeError))
        raise_about_call(
            trace, callable.get(),
            "argument after ** must be a mapping, not " + std::string(Py_TYPE(from)->tp_name));
      return false;
    }
    from = items.get();
  }
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(from, &position, &key, &value)) {
    const int there = PyDict_Contains(target, key);
    if (there < 0) return false;
    if (there && !PyUnicode_Check(key)) {
      PyErr_SetString(PyExc_TypeError, "keywords must be strings");
      return false;
    }
    if (there)
      return raise_about_call(
          trace, callable.get(),
          "got multiple values for keyword argument '" + std::string(cpython::utf8_of(key)) + "'");
    if (PyDict_SetItem(target, key, value) < 0) return false;
  }
  return true;
}

bool raise_about_call(TraceContext& trace, PyObject* callable, const std::string& what) {
  const bool plain = PyFunction_Check(callable) || PyMethod_Check(callable) ||
                     PyCFunction_Check(callable) || Py_IS_TYPE(callable, &PyType_Type);
  PyErr_Clear();
  if (!plain)
    return trace.breaks.refuse(BreakKind::kException, "a TypeError about what is called: " + what);
  const Ref qualname = Ref::steal(PyObject_GetAttrString(callable, "__qualname__"));
  const Ref module = Ref::steal(PyObject_GetAttrString(callable, "__module__"));
  PyErr_Clear();
  if (!qualname)
    return trace.breaks.refuse(BreakKind::kException, "a TypeError about what is called: " + what);
  const bool named = module && module.get() != Py_None &&
                     !(PyUnicode_Check(module.get()) &&
                       PyUnicode_CompareWithASCIIString(module.get(), "builtins") == 0);
  if (named)
    PyErr_Format(PyExc_TypeError, "%S.%S() %s", module.get(), qualname.get(), what.c_str());
  else
    PyErr_Format(PyExc_TypeError, "%S() %s", qualname.get(), what.c_str());
  return false;
}

}  // namespace braze::capture
