#include "capture/frames/entry_state.h"

#include <algorithm>

#include "capture/trace_context.h"
#include "cpython/text.h"

namespace braze::capture {

using cpython::Instruction;
using cpython::Opcode;

namespace {

// Kinds of locals in co_localspluskinds.
constexpr char kCellKind = 0x40, kFreeKind = static_cast<char>(0x80);

// How many entries from the top of the stack an instruction looks at. Those that only move entries
// look at none. May be too many.
int operand_count(const Instruction& in) {
  switch (in.op) {
    case Opcode::kNop:
    case Opcode::kPopTop:
    case Opcode::kPushNull:
    case Opcode::kCopy:
    case Opcode::kSwap:
    case Opcode::kLoadConst:
    case Opcode::kLoadFast:
    case Opcode::kLoadFastAndClear:
    case Opcode::kStoreFast:
    case Opcode::kDeleteFast:
    case Opcode::kMakeCell:
    case Opcode::kCopyFreeVars:
    case Opcode::kLoadClosure:
    case Opcode::kLoadDeref:
    case Opcode::kLoadGlobal:
    case Opcode::kJump:
    case Opcode::kKwNames:
    case Opcode::kReturnValue:
    case Opcode::kYieldValue:
    case Opcode::kReturnConst:
    case Opcode::kEndSend:
      return 0;
    case Opcode::kLoadMethod:
    case Opcode::kUnpackSequence:
    case Opcode::kUnpackEx:
    case Opcode::kForIter:
    case Opcode::kStoreDeref:
    case Opcode::kStoreGlobal:
    case Opcode::kGetLen:
    case Opcode::kImportFrom:
    case Opcode::kMatchMapping:
    case Opcode::kMatchSequence:
    case Opcode::kPopJumpIfFalse:
    case Opcode::kPopJumpIfTrue:
    case Opcode::kPopJumpIfNone:
    case Opcode::kPopJumpIfNotNone:
    case Opcode::kJumpIfFalseOrPop:
    case Opcode::kJumpIfTrueOrPop:
    case Opcode::kBeforeWith:
    case Opcode::kPushExcInfo:
    case Opcode::kPopExcept:
      return 1;
    case Opcode::kMatchKeys:
    case Opcode::kCheckExcMatch:
    case Opcode::kCheckEgMatch:
    case Opcode::kSend:
      return 2;
    case Opcode::kLoadSuperAttr:
    case Opcode::kCleanupThrow:
      return 3;
    case Opcode::kWithExceptStart:
      return 5;
    case Opcode::kListAppend:
    case Opcode::kSetAdd:
    case Opcode::kListExtend:
    case Opcode::kSetUpdate:
    case Opcode::kDictUpdate:
      return in.arg + 1;
    case Opcode::kMapAdd:
      return in.arg + 2;
    case Opcode::kDictMerge:
      return in.arg + 3;
    case Opcode::kCall:
      return in.arg + 2;
    case Opcode::kCallKw:
      return in.arg + 3;
    default:
      // It pops its operands and pushes one value at most.
      return 1 - cpython::stack_effect(in, false);
  }
}

// It has a finaliser or weak references.
bool end_is_noticed(PyObject* object) {
  if (PyType_Check(object)) return false;
  PyTypeObject* type = Py_TYPE(object);
  if (type->tp_finalize && !is_tensor(object)) return true;
  if (type->tp_weaklistoffset == 0) return false;  // below zero: before the object (3.12)
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + type->tp_weaklistoffset) !=
         nullptr;
}

}  // namespace

void begin_segment(TraceContext& trace, Frame& frame, PyObject* const* entry) {
  trace.entry.lazy = true;
  PyCodeObject* code = frame.code();
  frame.pc = frame.info->decoded->index_of_offset(trace.options.offset);
  const char* kinds = PyBytes_AS_STRING(code->co_localspluskinds);
  const int locals = code->co_nlocalsplus, free = locals - code->co_nfreevars;
  const std::span<PyObject* const> all(entry,
                                       static_cast<size_t>(locals + trace.options.stack_size));
  for (PyObject* object : all)
    if (object && end_is_noticed(object) &&
        Py_REFCNT(object) == std::count(all.begin(), all.end(), object))
      trace.entry.mortal[object] = true;
  for (int i = 0; i < locals + trace.options.stack_size; ++i) {
    Ref index = Ref::steal(PyLong_FromLong(i));
    const Source* source = trace.guards.source(SourceKind::kArgument, nullptr, index.get());
    Tracked tracked = Tracked::borrow(entry[i], source);
    const bool on_stack = i >= locals;
    const char kind = on_stack ? 0 : kinds[i];
    // On the stack: the cell of a variable whose place an inlined comprehension uses (PEP 709).
    const bool is_cell =
        entry[i] && PyCell_Check(entry[i]) && (on_stack || (kind & (kCellKind | kFreeKind)) != 0);
    if (is_cell) {
      if (kind & kFreeKind) {
        Ref cell = Ref::steal(PyLong_FromLong(i - free));
        source = trace.guards.source(SourceKind::kCell, trace.guards.source(SourceKind::kFunction),
                                     cell.get());
      } else {
        source = trace.guards.source(SourceKind::kContents, source);
      }
      trace.world.set_origin(entry[i], source);
      trace.world.hold(tracked.object);
      tracked.source = nullptr;
    } else {
      tracked.unread = true;
    }
    if (on_stack)
      frame.stack.push_back(std::move(tracked));
    else
      frame.locals[static_cast<size_t>(i)] = std::move(tracked);
  }
}

static bool is_of_own_class(const TraceContext& trace, PyObject* object) {
  if (PyMethod_Check(object)) object = PyMethod_GET_SELF(object);
  PyTypeObject* type =
      PyType_Check(object) ? reinterpret_cast<PyTypeObject*>(object) : Py_TYPE(object);
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return false;
  const std::string_view name =
      cpython::utf8_of(reinterpret_cast<PyHeapTypeObject*>(type)->ht_qualname);
  const auto made_by = [&](PyFunctionObject* maker) {
    const std::string_view function = cpython::utf8_of(maker->func_qualname);
    return name.starts_with(function) && name.substr(function.size()).starts_with(".<locals>.");
  };
  return made_by(trace.root) || std::ranges::any_of(trace.options.callers, made_by);
}

bool may_guard_class_of(TraceContext& trace, PyObject* object) {
  if (!is_of_own_class(trace, object)) return true;
  return trace.breaks.refuse(BreakKind::kClassStatement,
                             "an object of a class that this function makes at each call");
}

bool force(TraceContext& trace, Tracked& tracked) {
  if (!tracked.unread) return true;
  if (tracked && !may_guard_class_of(trace, tracked.get())) return false;
  const Source* source = tracked.source;
  tracked.unread = false;
  if (!tracked) {
    trace.guards.add(GuardKind::kAbsent, source);
    tracked = Tracked();
    return true;
  }
  tracked = trace.world.read(tracked.get(), source);
  return bool(tracked);
}

bool may_drop(TraceContext& trace, const Tracked& tracked) {
  if (!tracked || trace.entry.mortal.empty() || !trace.entry.mortal.contains(tracked.get()))
    return true;
  return trace.breaks.refuse(BreakKind::kSideEffect,
                             "an object with a finaliser or weak references is dropped");
}

// What the segment made ends before what it found in the frame, while CPython goes by their places.
static bool may_return(TraceContext& trace, const Frame& frame) {
  if (trace.entry.mortal.empty()) return true;
  for (const Tracked& local : frame.locals)
    if (local && !local.unread && !trace.world.source_of(local) && end_is_noticed(local.get()))
      return trace.breaks.refuse(BreakKind::kSideEffect,
                                 "objects with finalisers or weak references end with the frame");
  return true;
}

bool force_operands(TraceContext& trace, Frame& frame, const Instruction& in) {
  switch (in.op) {
    case Opcode::kLoadFast:
    case Opcode::kLoadFastAndClear:
    case Opcode::kDeleteFast: {
      Tracked& local = frame.locals[static_cast<size_t>(in.arg)];
      if (in.op == Opcode::kDeleteFast && !may_drop(trace, local)) return false;
      if (!local.unread) return true;
      if (!local) return force(trace, local);
      trace.guards.add(GuardKind::kPresent, local.source);
      return true;
    }
    case Opcode::kStoreFast:
      return may_drop(trace, frame.locals[static_cast<size_t>(in.arg)]);
    case Opcode::kPopTop:
      return may_drop(trace, frame.stack.back());
    case Opcode::kReturnValue:
    case Opcode::kReturnConst:
      return may_return(trace, frame);
    case Opcode::kMakeCell:
      return force(trace, frame.locals[static_cast<size_t>(in.arg)]);
    case Opcode::kCall:  // super() takes the first local
      if (in.arg == 0 && !frame.locals.empty() && !force(trace, frame.locals[0])) return false;
      break;
    default:
      break;
  }
  const auto size = static_cast<int>(frame.stack.size());
  const int count = std::min(operand_count(in), size);
  for (int i = size - count; i < size; ++i)
    if (!force(trace, frame.stack[static_cast<size_t>(i)])) return false;
  return true;
}

}  // namespace braze::capture
