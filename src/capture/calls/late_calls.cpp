#include "capture/calls/late_calls.h"

#include <algorithm>

#include "capture/calls/functions.h"
#include "capture/calls/output.h"
#include "capture/known.h"
#include "capture/policy/policy.h"
#include "capture/trace_context.h"
#include "cpython/frame.h"
#include "cpython/text.h"

namespace braze::capture {

using cpython::Instruction;
using cpython::Opcode;

// --- What the calls are about --------------------------------------------------------------------

void LateCalls::add(PyObject* object, PyObject* names, bool changed) {
  held_.push_back(Ref::borrow(object));
  if (changed) changed_.push_back(Ref::borrow(object));
  reached_[object].push_back({Ref::borrow(names), changed});
}

bool LateCalls::meets(PyObject* object, PyObject* name, bool changed_only) const {
  const std::vector<Reached>* found = object ? reached_.find(object) : nullptr;
  if (!found) return false;
  for (const Reached& reached : *found) {
    if (changed_only && !reached.changed) continue;
    if (reached.names.get() == Py_None || !name || !PyUnicode_CheckExact(name)) return true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(reached.names.get()); ++i)
      if (PyUnicode_Compare(PyTuple_GET_ITEM(reached.names.get(), i), name) == 0) return true;
  }
  return false;
}

bool LateCalls::may_read(PyObject* object, PyObject* name) const {
  return !meets(object, name, true);
}

bool LateCalls::may_write(PyObject* object, PyObject* name) const {
  // Of an object that is changed nothing may be written: its dict keeps the order of its keys.
  return !meets(object, nullptr, true) && !meets(object, name, false);
}

// --- What may come before them -------------------------------------------------------------------

namespace {

// An attribute that is one of the class is as good as read already.
bool may_read_attribute(const LateCalls& calls, PyObject* object, PyObject* name) {
  if (calls.may_read(object, name)) return true;
  PyObject* of_class = _PyType_Lookup(Py_TYPE(object), name);
  return of_class && PyFunction_Check(of_class);
}

// Python code is looked at instruction by instruction when it is evaluated.
bool is_evaluated(const TraceContext& trace, PyObject* callable) {
  if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
  if (PyFunction_Check(callable)) {
    auto* function = reinterpret_cast<PyFunctionObject*>(callable);
    auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
    return substitute_for(callable) ||
           code_info(code, function->func_globals).policy.frame != FramePolicy::kNative ||
           trace.world.made_function(callable);
  }
  if (PyType_Check(callable)) return is_python_class(reinterpret_cast<PyTypeObject*>(callable));
  return is_python_class(Py_TYPE(callable)) && !PyCFunction_Check(callable);
}

// What native code does with its arguments, by what is known of it.
bool may_be_given(const LateCalls& calls, PyObject* callable, PyObject* const* args, size_t count) {
  const auto reads = [&](PyObject* arg, PyObject* name = nullptr) {
    return !arg || calls.may_read(arg, name);
  };
  const auto all_read = [&] {
    return std::all_of(args, args + count, [&](PyObject* arg) { return reads(arg); });
  };
  if (PyType_Check(callable))
    return callable == reinterpret_cast<PyObject*>(&PySuper_Type) || all_read();
  if (const CalleeRule* rule = callee_rule(callable)) {
    switch (rule->callee) {
      case Callee::kIsinstance:
      case Callee::kLate:
        return true;
      case Callee::kGetattr:
      case Callee::kHasattr:
        return count < 2 || may_read_attribute(calls, args[0], args[1]);
      case Callee::kReadItem:
        return count < 2 || reads(args[0], args[1]);
      case Callee::kReadOnly:
      case Callee::kLen:
      case Callee::kIter:
      case Callee::kNext:
        return all_read();
      default:
        break;
    }
  }
  PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  if (self && !PyModule_Check(self)) {
    const char* name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
    const bool only_reads = container_method(name) == MethodEffect::kRead;
    PyObject* key = std::string_view(name) == "get" && count > 0 ? args[0] : nullptr;
    if (only_reads ? !reads(self, key) : !calls.may_write(self)) return false;
  }
  return std::all_of(args, args + count,
                     [&](PyObject* arg) { return !arg || calls.may_write(arg); });
}

// python/braze/_schedulers.py, which knows what they do.
bool puts_calls_off(const Frame& frame) {
  if (!frame.info->policy.is_stand_in) return false;
  PyObject* module = PyDict_GetItemWithError(frame.globals.get(), names().name);
  return module && std::string_view(cpython::utf8_of(module)) == "braze._schedulers";
}

bool may_be_called(const TraceContext& trace, const Frame& frame, size_t first) {
  std::vector<PyObject*> parts;
  for (size_t i = first; i < frame.stack.size(); ++i)
    if (PyObject* part = frame.stack[i].get()) parts.push_back(part);
  if (parts.empty() || is_evaluated(trace, parts[0])) return true;
  // A bound method lies there as its function and its object.
  return may_be_given(trace.late_calls, parts[0], parts.data() + 1, parts.size() - 1);
}

}  // namespace

bool may_come_before_late_calls(TraceContext& trace, const Frame& frame, const Instruction& in) {
  if (puts_calls_off(frame)) return true;
  const LateCalls& calls = trace.late_calls;
  const auto at = [&](size_t from_top) { return frame.stack[frame.stack.size() - from_top].get(); };
  const auto name = [&](int index) { return PyTuple_GET_ITEM(frame.code()->co_names, index); };
  PyObject* object = nullptr;
  bool may = true;
  switch (in.op) {
    case Opcode::kLoadAttr:
    case Opcode::kLoadMethod:
      may = may_read_attribute(calls, object = at(1), name(in.arg));
      break;
    case Opcode::kLoadSuperAttr:
      may = may_read_attribute(calls, object = at(1), name(in.arg >> 2));
      break;
    case Opcode::kStoreAttr:
    case Opcode::kDeleteAttr:
      may = calls.may_write(object = at(1), name(in.arg));
      break;
    case Opcode::kBinarySubscr:
      may = calls.may_read(object = at(2), at(1));
      break;
    case Opcode::kStoreSubscr:
    case Opcode::kDeleteSubscr:
      may = calls.may_write(object = at(2), at(1));
      break;
    case Opcode::kBinarySlice:
      may = calls.may_read(object = at(3));
      break;
    case Opcode::kStoreSlice:
      may = calls.may_write(object = at(3));
      break;
    case Opcode::kContainsOp:
      may = calls.may_read(object = at(1), at(2));
      break;
    case Opcode::kPopJumpIfFalse:
    case Opcode::kPopJumpIfTrue:
    case Opcode::kJumpIfFalseOrPop:
    case Opcode::kJumpIfTrueOrPop:
    case Opcode::kUnaryNot:
    case Opcode::kToBool:
    case Opcode::kGetLen:
    case Opcode::kGetIter:
    case Opcode::kForIter:
    case Opcode::kGetYieldFromIter:
    case Opcode::kUnpackSequence:
    case Opcode::kUnpackEx:
    case Opcode::kListExtend:
    case Opcode::kSetUpdate:
    case Opcode::kDictUpdate:
    case Opcode::kDictMerge:
    case Opcode::kListToTuple:
    case Opcode::kConvertValue:
      may = calls.may_read(object = at(1));
      break;
    case Opcode::kBinaryOp:
    case Opcode::kCompareOp:
    case Opcode::kFormatValue:
    case Opcode::kMatchMapping:
    case Opcode::kMatchSequence:
    case Opcode::kMatchKeys:
    case Opcode::kMatchClass:
      for (size_t i = 1; i <= std::min<size_t>(3, frame.stack.size()) && may; ++i)
        if (frame.stack[frame.stack.size() - i]) may = calls.may_write(object = at(i));
      break;
    case Opcode::kStoreDeref:
    case Opcode::kDeleteDeref:
      may = calls.may_write(object = frame.locals[static_cast<size_t>(in.arg)].get());
      break;
    case Opcode::kStoreGlobal:
    case Opcode::kDeleteGlobal:
      may = calls.may_write(object = frame.globals.get(), name(in.arg));
      break;
    case Opcode::kCall:
      may = may_be_called(trace, frame, frame.stack.size() - static_cast<size_t>(in.arg) - 2);
      break;
    case Opcode::kCallKw:
      may = may_be_called(trace, frame, frame.stack.size() - static_cast<size_t>(in.arg) - 3);
      break;
    case Opcode::kCallFunctionEx:
      may = may_be_called(trace, frame, frame.stack.size() - 3u - static_cast<size_t>(in.arg & 1));
      break;
    default:
      return true;
  }
  if (may) return true;
  const char* type = object ? Py_TYPE(object)->tp_name : "";
  return trace.breaks.refuse(
      BreakKind::kPendingChange,
      object ? std::string("a '") + type + "' object that a call that is put off reads or changes"
             : "native code is given an object that a call that is put off reads or changes");
}

// --- Putting them off ----------------------------------------------------------------------------

namespace {

// A function that makes the call where the code stands that is being evaluated: warnings and
// tracebacks name its line.
Ref caller_at(PyObject* function, int line) {
  static PyObject* make = [] {
    Ref module = Ref::steal(PyImport_ImportModule("braze._schedulers"));
    return module ? PyObject_GetAttrString(module.get(), "caller_at") : nullptr;
  }();
  const Ref number = Ref::steal(PyLong_FromLong(line));
  if (!make || !number) return {};
  PyObject* const args[] = {function, number.get()};
  return Ref::steal(cpython::call_unhooked(make, args, 2, nullptr));
}

bool some_handler_covers(const Frame* frame) {
  for (; frame; frame = frame->back)
    if (!frame->info->policy.is_stand_in && frame->info->decoded->handler(frame->current()))
      return true;
  return false;
}

void add_all(LateCalls& calls, PyObject* pairs, bool changed) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(pairs); ++i) {
    PyObject* pair = PyTuple_GET_ITEM(pairs, i);
    calls.add(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1), changed);
  }
}

}  // namespace

// That what was seen of the object is so on later calls, too, and the function that calls in the
// place of the traced code.
static Tracked stand_where_called(TraceContext& trace, const Tracked& object, PyObject* look) {
  const auto part = [&](Py_ssize_t i) { return PyTuple_GET_ITEM(look, i); };
  const Source* source = trace.world.source_of(object);
  const Frame* frame = trace.frames.top();
  if (part(1) == Py_True && some_handler_covers(frame))
    return trace.refuse(BreakKind::kUntraceableOp,
                        "scheduler.step(): it may raise within 'try' or 'with'");
  if (handles_warnings(trace) || some_warning_raises(trace))
    return trace.refuse(BreakKind::kOutput, "scheduler.step(): a warning that may raise");
  while (frame && frame->info->policy.is_stand_in) frame = frame->back;
  BRAZE_CHECK(frame, "the code that puts a call off is called by some other");
  const Ref caller = caller_at(frame->function.get(), frame->line());
  if (!caller) return {};
  trace.guards.add(GuardKind::kIdentity, source, object.get());
  if (!trace.world.read(part(2), trace.guards.source(SourceKind::kNative, nullptr, part(3))))
    return {};
  trace.world.note_output();
  return trace.world.read(caller.get(), trace.guards.pinned(caller.get()));
}

Tracked call_later(TraceContext& trace, Tracked* args, size_t count) {
  BRAZE_CHECK(count == 3 && PyTuple_CheckExact(args[2].get()),
              "call_later() takes three arguments");
  std::vector<Tracked> given;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[2].get()); ++i)
    given.push_back(trace.world.wrap(PyTuple_GET_ITEM(args[2].get(), i)));
  BRAZE_CHECK(!given.empty(), "call_later() is given an object");
  if (!trace.world.source_of(given[0]) || trace.native.depth > 0 || trace.torch_calls)
    return trace.refuse(BreakKind::kUntraceableOp,
                        "a call that is put off is about an object that the traced code made");
  PyObject* object = given[0].get();
  const Ref look = Ref::steal(cpython::call_unhooked(args[0].get(), &object, 1, nullptr));
  if (!look) return {};
  const auto part = [&](Py_ssize_t i) { return PyTuple_GET_ITEM(look.get(), i); };
  if (part(0) != Py_None)
    return trace.refuse(BreakKind::kUntraceableOp,
                        std::string("scheduler.step(): ") + cpython::utf8_of(part(0)));
  Tracked callable = args[1];
  if (part(3) != Py_None) {
    callable = stand_where_called(trace, given[0], look.get());
    if (!callable) return {};
    given.insert(given.begin(), args[1]);
  }
  add_all(trace.late_calls, part(4), true);
  add_all(trace.late_calls, part(5), false);
  trace.deferred.push_back({std::move(callable), std::move(given), Ref()});
  return Tracked::borrow(Py_None);
}

}  // namespace braze::capture
