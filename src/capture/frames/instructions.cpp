#include "capture/frames/instructions.h"

#include "capture/calls/calls.h"
#include "capture/calls/functions.h"
#include "capture/frames/assertions.h"
#include "capture/frames/exceptions.h"
#include "capture/frames/generators.h"
#include "capture/objects/attribute_writes.h"
#include "capture/objects/class_statements.h"
#include "capture/objects/displays.h"
#include "capture/objects/imports.h"
#include "capture/objects/items.h"
#include "capture/objects/iteration.h"
#include "capture/objects/match.h"
#include "capture/objects/operators.h"
#include "capture/objects/super.h"
#include "capture/objects/variables.h"
#include "capture/trace_context.h"

namespace braze::capture {

using cpython::Instruction;
using cpython::Opcode;

namespace {

bool push_bool(Frame& frame, int value) {
  return value >= 0 && frame.push(Tracked::borrow(value ? Py_True : Py_False));
}

PyObject* name_at(Frame& frame, int index) {
  return PyTuple_GET_ITEM(frame.code()->co_names, index);
}

}  // namespace

bool run_instruction(TraceContext& trace, Frame& frame, const Instruction& in) {
  std::vector<Tracked>& stack = frame.stack;
  const auto local = static_cast<size_t>(in.arg);
  switch (in.op) {
    case Opcode::kBuildTuple:
    case Opcode::kBuildList:
    case Opcode::kBuildSet:
    case Opcode::kBuildMap:
    case Opcode::kBuildConstKeyMap:
    case Opcode::kBuildString:
    case Opcode::kBuildSlice:
      return build_display(trace, frame, in);
    case Opcode::kListAppend:
    case Opcode::kSetAdd:
    case Opcode::kMapAdd:
    case Opcode::kListExtend:
    case Opcode::kSetUpdate:
    case Opcode::kDictUpdate:
    case Opcode::kDictMerge:
      return extend_display(trace, frame, in);

    // --- Locals, cells, globals
    case Opcode::kLoadFastAndClear:
      stack.push_back(std::exchange(frame.locals[local], Tracked()));
      return true;
    case Opcode::kDeleteFast:
      if (!frame.locals[local]) {
        PyErr_Format(PyExc_UnboundLocalError,
                     "cannot access local variable '%U' where it is not associated with a value",
                     PyTuple_GET_ITEM(frame.code()->co_localsplusnames, in.arg));
        return false;
      }
      std::exchange(frame.locals[local], Tracked());
      return true;
    case Opcode::kMakeCell: {
      Ref cell = Ref::steal(PyCell_New(frame.locals[local].get()));
      trace.world.mark_created(cell.get());
      frame.locals[local] = Tracked(cell);
      return true;
    }
    case Opcode::kCopyFreeVars:
      copy_free_vars(trace, frame, in.arg);
      return true;
    case Opcode::kLoadClosure:
      stack.push_back(frame.locals[local]);
      return true;
    case Opcode::kStoreDeref:
      return store_deref(trace, frame, in.arg, frame.pop());
    case Opcode::kDeleteDeref:
      return store_deref(trace, frame, in.arg, Tracked());
    case Opcode::kStoreGlobal:
      return store_global(trace, frame, name_at(frame, in.arg), frame.pop());
    case Opcode::kDeleteGlobal:
      return store_global(trace, frame, name_at(frame, in.arg), Tracked());

    // --- Attributes and items
    case Opcode::kLoadSuperAttr: {
      Tracked self = frame.pop(), cls = frame.pop();
      frame.pop();
      Tracked bound, value;
      value = super_attribute(trace, cls, self, name_at(frame, in.arg >> 2),
                              in.arg & 1 ? &bound : nullptr);
      if (!value) return false;
      bool method = in.arg & 1;
      if (method && !bound && in.null_below) stack.emplace_back();
      stack.push_back(std::move(value));
      if (method && (bound || !in.null_below)) stack.push_back(std::move(bound));
      return true;
    }
    case Opcode::kStoreAttr: {
      Tracked object = frame.pop(), value = frame.pop();
      return setattr(trace, object, name_at(frame, in.arg), value);
    }
    case Opcode::kDeleteAttr:
      return setattr(trace, frame.pop(), name_at(frame, in.arg), Tracked());
    case Opcode::kStoreSubscr: {
      Tracked key = frame.pop(), object = frame.pop(), value = frame.pop();
      return setitem(trace, object, key, value);
    }
    case Opcode::kDeleteSubscr: {
      Tracked key = frame.pop(), object = frame.pop();
      return setitem(trace, object, key, Tracked());
    }
    case Opcode::kBinarySlice:
    case Opcode::kStoreSlice: {
      Tracked stop = frame.pop(), start = frame.pop(), object = frame.pop();
      Tracked slice = Tracked::steal(PySlice_New(start.get(), stop.get(), nullptr));
      if (in.op == Opcode::kBinarySlice) return frame.push(getitem(trace, object, slice));
      return setitem(trace, object, slice, frame.pop());
    }

    // --- Operators
    case Opcode::kUnaryNot: {
      int value = truth(trace, frame.pop());
      return push_bool(frame, value < 0 ? -1 : !value);
    }
    case Opcode::kToBool:
      return push_bool(frame, truth_for_jump(trace, frame, frame.pop(), frame.pc));
    case Opcode::kUnaryNegative:
    case Opcode::kUnaryPositive:
    case Opcode::kUnaryInvert:
      return frame.push(unary_operation(trace, in.op, frame.pop()));
    case Opcode::kBinaryOp: {
      Tracked b = frame.pop(), a = frame.pop();
      return frame.push(binary_operation(trace, in.arg, std::move(a), std::move(b)));
    }
    case Opcode::kCompareOp: {
      Tracked b = frame.pop(), a = frame.pop();
      return frame.push(compare(trace, a, b, in.arg & 15, (in.arg & 256) != 0));
    }
    case Opcode::kFormatValue: {
      Tracked spec = in.arg & 4 ? frame.pop() : Tracked();
      return frame.push(format_value(trace, frame.pop(), spec, in.arg & 3));
    }
    case Opcode::kUnpackSequence:
      return unpack(trace, frame, in.arg, 0, false);
    case Opcode::kUnpackEx:
      return unpack(trace, frame, in.arg & 255, in.arg >> 8, true);
    case Opcode::kListToTuple: {
      // Where the segment began amid the building, the list is from outside.
      Tracked list = frame.pop();
      if (trace.world.source_of(list) && !trace.world.read_all(list.get())) return false;
      return frame.push(Tracked::steal(PyList_AsTuple(trace.world.effective(list.get()))));
    }
    case Opcode::kGetIter:
      return frame.push(get_iter(trace, frame.pop()));
    case Opcode::kGetLen: {
      Tracked length = length_of(trace, stack.back());
      return frame.push(std::move(length));
    }

    // --- Generators
    case Opcode::kGetYieldFromIter:
      if (PyGen_CheckExact(stack.back().get())) return true;
      return frame.push(get_iter(trace, frame.pop()));
    case Opcode::kSend:
      return send_value(trace, frame, in);
    case Opcode::kEndSend: {
      Tracked value = frame.pop();
      stack.back() = std::move(value);
      return true;
    }

    // --- Calls, functions, imports
    case Opcode::kCallFunctionEx: {
      Tracked kwargs = in.arg & 1 ? frame.pop() : Tracked();
      Tracked args = frame.pop(), b = frame.pop(), a = frame.pop();
      return frame.push(call_unpacked(trace, b ? b : a, args, kwargs));
    }
    case Opcode::kMakeFunction:
      return frame.push(make_function(trace, frame, in.arg));
    case Opcode::kSetFunctionAttribute:
      return set_function_attribute(frame, in.arg);
    case Opcode::kImportName: {
      Tracked from_list = frame.pop(), level = frame.pop();
      return frame.push(import_name(trace, frame, name_at(frame, in.arg), from_list, level));
    }
    case Opcode::kImportFrom: {
      Tracked module = stack.back();
      return frame.push(import_from(trace, module, name_at(frame, in.arg)));
    }

    // --- Exceptions and with
    case Opcode::kLoadAssertionError:
      stack.push_back(Tracked::borrow(PyExc_AssertionError));
      return true;
    case Opcode::kBeforeWith:
      return enter_with(trace, frame);
    case Opcode::kWithExceptStart: {
      PyObject* exception = stack.back().get();
      PyObject* traceback = PyException_GetTraceback(exception);
      Tracked args[3] = {Tracked::borrow(reinterpret_cast<PyObject*>(Py_TYPE(exception))),
                         Tracked::borrow(exception),
                         traceback ? Tracked::steal(traceback) : Tracked::borrow(Py_None)};
      Tracked exit = frame.peek(4);
      return frame.push(call(trace, exit, args, 3, nullptr));
    }
    case Opcode::kPushExcInfo: {
      Tracked exception = frame.pop();
      // Of this level only: a generator's outer handled exception is not its own.
      PyObject* handled = PyThreadState_Get()->exc_info->exc_value;
      stack.push_back(Tracked::borrow(handled ? handled : Py_None));
      PyErr_SetHandledException(exception.get());
      stack.push_back(std::move(exception));
      return true;
    }
    case Opcode::kPopExcept: {
      Tracked previous = frame.pop();
      if (trace.frames.depth() == 1 && !trace.progress.handling.empty()) {
        trace.progress.last_handled = trace.progress.handling.front();
        trace.progress.handling.pop_back();
      }
      PyErr_SetHandledException(previous.get() == Py_None ? nullptr : previous.get());
      return true;
    }
    case Opcode::kCheckExcMatch:
      return check_exception_match(trace, frame);
    case Opcode::kCheckEgMatch:
      return check_group_match(trace, frame);
    case Opcode::kPrepReraiseStar: {
      Tracked raised = frame.pop(), original = frame.pop();
      return frame.push(exceptions_to_raise(trace, original, raised));
    }
    case Opcode::kReraise: {
      Tracked exception = frame.pop();
      if (trace.world.source_of(exception))
        return trace.breaks.refuse(BreakKind::kOutsideException,
                                   "an exception object from outside is raised");
      restore_exception(exception.object);
      return false;
    }
    case Opcode::kRaiseVarargs:
      raise_varargs(trace, in.arg, frame);
      return false;
    case Opcode::kStopIterationError: {
      Tracked exception = frame.pop();
      return frame.push(stop_iteration_error(exception));
    }
    case Opcode::kCleanupThrow:
      return cleanup_throw(trace, frame);

    // --- match
    case Opcode::kMatchMapping:
    case Opcode::kMatchSequence: {
      auto flag = in.op == Opcode::kMatchMapping ? Py_TPFLAGS_MAPPING : Py_TPFLAGS_SEQUENCE;
      return push_bool(frame, PyType_HasFeature(Py_TYPE(stack.back().get()), flag) != 0);
    }
    case Opcode::kMatchKeys:
      return frame.push(match_keys(trace, frame.peek(2), frame.peek(1)));
    case Opcode::kMatchClass: {
      Tracked attribute_names = frame.pop(), cls = frame.pop(), subject = frame.pop();
      return frame.push(match_class(trace, subject, cls, attribute_names, in.arg));
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
      return run_class_instruction(trace, frame, in);
    default:
      return unsupported_instruction(trace, frame, in);
  }
}

bool unsupported_instruction(TraceContext& trace, Frame&, const Instruction& in) {
  const char* what = cpython::asynchronous_part(in);
  const BreakKind kind = what ? BreakKind::kSuspends : BreakKind::kUnsupportedBytecode;
  switch (in.op) {
    case Opcode::kImportStar:
      what = "from ... import *";
      break;
    default:
      break;
  }
  return trace.breaks.refuse(kind, what ? what
                                        : std::string("instruction ") + cpython::to_string(in.op) +
                                              " (" + std::to_string(in.raw) + ")");
}

}  // namespace braze::capture
