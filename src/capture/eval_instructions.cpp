// The instructions that the loop in eval.cpp does not carry out itself.
#include <algorithm>

#include "capture/evaluator.h"
#include "capture/known.h"

namespace braze::capture {

using cpython::Instruction;
using cpython::Opcode;

namespace {

Slot pop(Frame& frame) {
  Slot slot = std::move(frame.stack.back());
  frame.stack.pop_back();
  return slot;
}

Slot& peek(Frame& frame, int n) { return frame.stack[frame.stack.size() - static_cast<size_t>(n)]; }

void drop(Frame& frame, int n) { frame.stack.resize(frame.stack.size() - static_cast<size_t>(n)); }

bool push(Frame& frame, Slot slot) {
  if (!slot) return false;
  frame.stack.push_back(std::move(slot));
  return true;
}

bool push_bool(Frame& frame, int value) {
  return value >= 0 && push(frame, Slot::borrow(value ? Py_True : Py_False));
}

PyObject* name_at(Frame& frame, int index) {
  return PyTuple_GET_ITEM(frame.code()->co_names, index);
}

}  // namespace

// Tuples, lists, sets, dicts, strings and slices from stack entries.
bool Evaluator::build(Frame& frame, const Instruction& in) {
  const int n = in.arg;
  Ref made;
  switch (in.op) {
    case Opcode::kBuildTuple:
      made = Ref::steal(PyTuple_New(n));
      for (int i = n; i--;) PyTuple_SET_ITEM(made.get(), i, pop(frame).object.release());
      return push(frame, Slot(made));
    case Opcode::kBuildList:
      made = Ref::steal(PyList_New(n));
      for (int i = n; i--;) PyList_SET_ITEM(made.get(), i, pop(frame).object.release());
      break;
    case Opcode::kBuildSet:
      made = Ref::steal(PySet_New(nullptr));
      for (int i = n; i > 0; --i) {
        make_concrete(peek(frame, i));
        world_.guard_as_key(peek(frame, i).get());
        if (PySet_Add(made.get(), peek(frame, i).get()) < 0) return false;
      }
      drop(frame, n);
      break;
    case Opcode::kBuildMap:
      made = Ref::steal(PyDict_New());
      for (int i = n; i > 0; --i) {
        make_concrete(peek(frame, 2 * i));
        world_.guard_as_key(peek(frame, 2 * i).get());
        if (PyDict_SetItem(made.get(), peek(frame, 2 * i).get(), peek(frame, 2 * i - 1).get()) < 0)
          return false;
      }
      drop(frame, 2 * n);
      break;
    case Opcode::kBuildConstKeyMap: {
      Slot keys = pop(frame);
      made = Ref::steal(PyDict_New());
      for (int i = 0; i < n; ++i)
        if (PyDict_SetItem(made.get(), PyTuple_GET_ITEM(keys.get(), i), peek(frame, n - i).get()) <
            0)
          return false;
      drop(frame, n);
      break;
    }
    case Opcode::kBuildString: {
      Ref empty = Ref::steal(PyUnicode_New(0, 0));
      Ref parts = Ref::steal(PyList_New(n));
      for (int i = n; i--;) PyList_SET_ITEM(parts.get(), i, pop(frame).object.release());
      return push(frame, Slot::steal(PyUnicode_Join(empty.get(), parts.get())));
    }
    case Opcode::kBuildSlice: {
      Slot step = n == 3 ? pop(frame) : Slot();
      Slot stop = pop(frame), start = pop(frame);
      return push(frame, Slot::steal(PySlice_New(start.get(), stop.get(), step.get())));
    }
    default:
      return false;
  }
  if (!made) return false;
  world_.mark_created(made.get());
  return push(frame, Slot(made));
}

// Adds to a container that the frame is building.
bool Evaluator::extend(Frame& frame, const Instruction& in) {
  Slot value = pop(frame);
  // Where the segment began amid the building, the container is from outside.
  PyObject* target = peek(frame, in.op == Opcode::kMapAdd ? in.arg + 1 : in.arg).get();
  target = world_.source_of(target) ? world_.shadow(target) : world_.effective(target);
  if (!target) return false;
  switch (in.op) {
    case Opcode::kListAppend:
      return PyList_Append(target, value.get()) == 0;
    case Opcode::kSetAdd:
      make_concrete(value);
      world_.guard_as_key(value.get());
      return PySet_Add(target, value.get()) == 0;
    case Opcode::kMapAdd: {
      Slot key = pop(frame);
      make_concrete(key);
      world_.guard_as_key(key.get());
      return PyDict_SetItem(target, key.get(), value.get()) == 0;
    }
    case Opcode::kListExtend: {
      if (!PyList_Check(value.get()) && !PyTuple_Check(value.get())) {
        Ref items = to_list(value);
        if (!items && PyErr_ExceptionMatches(PyExc_TypeError) && !Py_TYPE(value.get())->tp_iter &&
            !PySequence_Check(value.get()))
          PyErr_Format(PyExc_TypeError, "Value after * must be an iterable, not %.200s",
                       Py_TYPE(value.get())->tp_name);
        if (!items) return false;
        value = Slot(items);
      } else if (world_.source_of(value) && !world_.read_all(value.get())) {
        return false;
      }
      Py_ssize_t end = PyList_GET_SIZE(target);
      return PyList_SetSlice(target, end, end, world_.effective(value.get())) == 0;
    }
    case Opcode::kSetUpdate: {
      make_concrete(value);
      Ref items = to_list(value);
      if (!items) return false;
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
        world_.guard_as_key(PyList_GET_ITEM(items.get(), i));
        if (PySet_Add(target, PyList_GET_ITEM(items.get(), i)) < 0) return false;
      }
      return true;
    }
    default: {  // DictUpdate, DictMerge
      if (!PyDict_Check(value.get()) && world_.is_outside(value.get()))
        return breaks_.refuse(BreakKind::kMapping, "** of a mapping that is not a dict");
      if (world_.source_of(value) && !world_.read_all(value.get())) return false;
      PyObject* from = world_.effective(value.get());
      if (in.op == Opcode::kDictUpdate) {
        if (PyDict_Update(target, from) == 0) return true;
        if (PyErr_ExceptionMatches(PyExc_AttributeError))
          PyErr_Format(PyExc_TypeError, "'%.200s' object is not a mapping", Py_TYPE(from)->tp_name);
        return false;
      }
      return merge_keywords(peek(frame, in.arg + 2), target, from);
    }
  }
}

// f(**a, **b): like an update, but a key that is there already is an error.
bool Evaluator::merge_keywords(const Slot& callable, PyObject* target, PyObject* from) {
  std::string called = "function";
  if (PyFunction_Check(callable.get()))
    called = std::string(PyUnicode_AsUTF8(
                 reinterpret_cast<PyFunctionObject*>(callable.get())->func_qualname)) +
             "()";
  if (!PyDict_Check(from)) {
    if (PyDict_Update(target, from) == 0) return true;
    if (PyErr_ExceptionMatches(PyExc_AttributeError))
      PyErr_Format(PyExc_TypeError, "%s argument after ** must be a mapping, not %.200s",
                   called.c_str(), Py_TYPE(from)->tp_name);
    return false;
  }
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(from, &position, &key, &value)) {
    int there = PyDict_Contains(target, key);
    if (there < 0) return false;
    if (there && !PyUnicode_Check(key)) {
      PyErr_SetString(PyExc_TypeError, "keywords must be strings");
      return false;
    }
    if (there) {
      PyErr_Format(PyExc_TypeError, "%s got multiple values for keyword argument '%S'",
                   called.c_str(), key);
      return false;
    }
    if (PyDict_SetItem(target, key, value) < 0) return false;
  }
  return true;
}

bool Evaluator::run_instruction(Frame& frame, const Instruction& in) {
  std::vector<Slot>& stack = frame.stack;
  const auto local = static_cast<size_t>(in.arg);
  switch (in.op) {
    case Opcode::kBuildTuple:
    case Opcode::kBuildList:
    case Opcode::kBuildSet:
    case Opcode::kBuildMap:
    case Opcode::kBuildConstKeyMap:
    case Opcode::kBuildString:
    case Opcode::kBuildSlice:
      return build(frame, in);
    case Opcode::kListAppend:
    case Opcode::kSetAdd:
    case Opcode::kMapAdd:
    case Opcode::kListExtend:
    case Opcode::kSetUpdate:
    case Opcode::kDictUpdate:
    case Opcode::kDictMerge:
      return extend(frame, in);

    // --- Locals, cells, globals
    case Opcode::kLoadFastAndClear:
      stack.push_back(std::exchange(frame.locals[local], Slot()));
      return true;
    case Opcode::kDeleteFast:
      if (!frame.locals[local]) {
        PyErr_Format(PyExc_UnboundLocalError,
                     "cannot access local variable '%U' where it is not associated with a value",
                     PyTuple_GET_ITEM(frame.code()->co_localsplusnames, in.arg));
        return false;
      }
      std::exchange(frame.locals[local], Slot());
      return true;
    case Opcode::kMakeCell: {
      Ref cell = Ref::steal(PyCell_New(frame.locals[local].get()));
      world_.mark_created(cell.get());
      frame.locals[local] = Slot(cell);
      return true;
    }
    case Opcode::kCopyFreeVars:
      return copy_free_vars(frame, in.arg);
    case Opcode::kLoadClosure:
      stack.push_back(frame.locals[local]);
      return true;
    case Opcode::kStoreDeref:
      return store_deref(frame, in.arg, pop(frame));
    case Opcode::kDeleteDeref:
      return store_deref(frame, in.arg, Slot());
    case Opcode::kStoreGlobal:
      return store_global(frame, name_at(frame, in.arg), pop(frame));
    case Opcode::kDeleteGlobal:
      return store_global(frame, name_at(frame, in.arg), Slot());

    // --- Attributes and items
    case Opcode::kLoadSuperAttr: {
      Slot self = pop(frame), cls = pop(frame);
      pop(frame);
      Slot bound, value;
      value =
          super_attribute(cls, self, name_at(frame, in.arg >> 2), in.arg & 1 ? &bound : nullptr);
      if (!value) return false;
      bool method = in.arg & 1;
      if (method && !bound && in.null_below) stack.emplace_back();
      stack.push_back(std::move(value));
      if (method && (bound || !in.null_below)) stack.push_back(std::move(bound));
      return true;
    }
    case Opcode::kStoreAttr: {
      Slot object = pop(frame), value = pop(frame);
      return setattr(object, name_at(frame, in.arg), value);
    }
    case Opcode::kDeleteAttr:
      return setattr(pop(frame), name_at(frame, in.arg), Slot());
    case Opcode::kStoreSubscr: {
      Slot key = pop(frame), object = pop(frame), value = pop(frame);
      return setitem(object, key, value);
    }
    case Opcode::kDeleteSubscr: {
      Slot key = pop(frame), object = pop(frame);
      return setitem(object, key, Slot());
    }
    case Opcode::kBinarySlice:
    case Opcode::kStoreSlice: {
      Slot stop = pop(frame), start = pop(frame), object = pop(frame);
      Slot slice = Slot::steal(PySlice_New(start.get(), stop.get(), nullptr));
      if (in.op == Opcode::kBinarySlice) return push(frame, getitem(object, slice));
      return setitem(object, slice, pop(frame));
    }

    // --- Operators
    case Opcode::kUnaryNot: {
      int value = truth(pop(frame));
      return push_bool(frame, value < 0 ? -1 : !value);
    }
    case Opcode::kToBool:
      return push_bool(frame, truth(pop(frame)));
    case Opcode::kUnaryNegative:
    case Opcode::kUnaryPositive:
    case Opcode::kUnaryInvert:
      return push(frame, unary(in.op, pop(frame)));
    case Opcode::kBinaryOp: {
      Slot b = pop(frame), a = pop(frame);
      return push(frame, binary(in.arg, std::move(a), std::move(b)));
    }
    case Opcode::kCompareOp: {
      Slot b = pop(frame), a = pop(frame);
      return push(frame, compare(a, b, in.arg & 15, (in.arg & 256) != 0));
    }
    case Opcode::kFormatValue: {
      Slot spec = in.arg & 4 ? pop(frame) : Slot();
      return push(frame, format(pop(frame), spec, in.arg & 3));
    }
    case Opcode::kUnpackSequence:
      return unpack(frame, in.arg, 0, false);
    case Opcode::kUnpackEx:
      return unpack(frame, in.arg & 255, in.arg >> 8, true);
    case Opcode::kListToTuple: {
      Slot list = pop(frame);
      return push(frame, Slot::steal(PyList_AsTuple(list.get())));
    }
    case Opcode::kGetIter:
      return push(frame, get_iter(pop(frame)));
    case Opcode::kGetLen: {
      Slot length = length_of(stack.back());
      return push(frame, std::move(length));
    }

    // --- Generators
    case Opcode::kGetYieldFromIter:
      if (PyGen_CheckExact(stack.back().get())) return true;
      return push(frame, get_iter(pop(frame)));
    case Opcode::kSend:
      return send(frame, in);
    case Opcode::kEndSend: {
      Slot value = pop(frame);
      stack.back() = std::move(value);
      return true;
    }

    // --- Calls, functions, imports
    case Opcode::kCallFunctionEx: {
      Slot kwargs = in.arg & 1 ? pop(frame) : Slot();
      Slot args = pop(frame), b = pop(frame), a = pop(frame);
      return push(frame, call_unpacked(b ? b : a, args, kwargs));
    }
    case Opcode::kMakeFunction:
      return push(frame, make_function(frame, in.arg));
    case Opcode::kSetFunctionAttribute:
      return set_function_attribute(frame, in.arg);
    case Opcode::kImportName: {
      Slot from_list = pop(frame), level = pop(frame);
      return push(frame, import_name(frame, name_at(frame, in.arg), from_list, level));
    }
    case Opcode::kImportFrom: {
      Slot module = stack.back();
      return push(frame, import_from(module, name_at(frame, in.arg)));
    }

    // --- Exceptions and with
    case Opcode::kLoadAssertionError:
      stack.push_back(Slot::borrow(PyExc_AssertionError));
      return true;
    case Opcode::kBeforeWith:
      return enter_with(frame);
    case Opcode::kWithExceptStart: {
      PyObject* exception = stack.back().get();
      PyObject* traceback = PyException_GetTraceback(exception);
      Slot args[3] = {Slot::borrow(reinterpret_cast<PyObject*>(Py_TYPE(exception))),
                      Slot::borrow(exception),
                      traceback ? Slot::steal(traceback) : Slot::borrow(Py_None)};
      Slot exit = peek(frame, 4);
      return push(frame, call(exit, args, 3, nullptr));
    }
    case Opcode::kPushExcInfo: {
      Slot exception = pop(frame);
      // Of this level only: a generator's outer handled exception is not its own.
      PyObject* handled = PyThreadState_Get()->exc_info->exc_value;
      stack.push_back(Slot::borrow(handled ? handled : Py_None));
      PyErr_SetHandledException(exception.get());
      stack.push_back(std::move(exception));
      return true;
    }
    case Opcode::kPopExcept: {
      Slot previous = pop(frame);
      if (depth_ == 1 && !handling_.empty()) {
        last_handled_ = handling_.front();
        handling_.pop_back();
      }
      PyErr_SetHandledException(previous.get() == Py_None ? nullptr : previous.get());
      return true;
    }
    case Opcode::kCheckExcMatch:
      return check_exception_match(frame);
    case Opcode::kCheckEgMatch:
      return check_group_match(frame);
    case Opcode::kPrepReraiseStar: {
      Slot raised = pop(frame), original = pop(frame);
      return push(frame, exceptions_to_raise(original, raised));
    }
    case Opcode::kReraise: {
      Slot exception = pop(frame);
      if (world_.source_of(exception))
        return breaks_.refuse(BreakKind::kOutsideException,
                              "an exception object from outside is raised");
      restore_exception(exception.object);
      return false;
    }
    case Opcode::kRaiseVarargs:
      raise(in.arg, frame);
      return false;
    case Opcode::kStopIterationError: {
      Slot exception = pop(frame);
      return push(frame, stop_iteration_error(exception));
    }
    case Opcode::kCleanupThrow:
      return cleanup_throw(frame);

    // --- match
    case Opcode::kMatchMapping:
    case Opcode::kMatchSequence: {
      auto flag = in.op == Opcode::kMatchMapping ? Py_TPFLAGS_MAPPING : Py_TPFLAGS_SEQUENCE;
      return push_bool(frame, PyType_HasFeature(Py_TYPE(stack.back().get()), flag) != 0);
    }
    case Opcode::kMatchKeys:
      return push(frame, match_keys(peek(frame, 2), peek(frame, 1)));
    case Opcode::kMatchClass: {
      Slot attribute_names = pop(frame), cls = pop(frame), subject = pop(frame);
      return push(frame, match_class(subject, cls, attribute_names, in.arg));
    }
    case Opcode::kLoadBuildClass:
    case Opcode::kLoadName:
    case Opcode::kStoreName:
    case Opcode::kDeleteName:
    case Opcode::kLoadLocals:
    case Opcode::kSetupAnnotations:
    case Opcode::kLoadClassDeref:
    case Opcode::kLoadFromDictOrDeref:
    case Opcode::kLoadFromDictOrGlobals:
      return run_class_instruction(frame, in);
    default:
      return unsupported_instruction(frame, in);
  }
}

bool Evaluator::unsupported_instruction(Frame&, const Instruction& in) {
  const char* what = cpython::asynchronous_part(in);
  const BreakKind kind = what ? BreakKind::kSuspends : BreakKind::kUnsupportedBytecode;
  switch (in.op) {
    case Opcode::kImportStar:
      what = "from ... import *";
      break;
    default:
      break;
  }
  return breaks_.refuse(kind, what ? what
                                   : std::string("instruction ") + cpython::to_string(in.op) +
                                         " (" + std::to_string(in.raw) + ")");
}

}  // namespace braze::capture
