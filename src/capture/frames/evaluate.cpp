#include "capture/frames/evaluate.h"

#include "capture/calls/calls.h"
#include "capture/frames/assertions.h"
#include "capture/frames/entry_state.h"
#include "capture/frames/exceptions.h"
#include "capture/frames/instructions.h"
#include "capture/objects/attributes.h"
#include "capture/objects/items.h"
#include "capture/objects/iteration.h"
#include "capture/objects/operators.h"
#include "capture/objects/super.h"
#include "capture/objects/variables.h"
#include "capture/symbols/text.h"
#include "capture/trace_context.h"
#include "cpython/code.h"
#include "cpython/frame.h"
#include "cpython/text.h"

namespace braze::capture {

using cpython::Instruction;
using cpython::Opcode;

namespace {

constexpr int64_t kBytecodeBudget = 20'000'000;
constexpr double kSecondsBudget = 10;

}  // namespace

static Status run_instructions(TraceContext& trace, Frame& frame, Tracked& result, bool raised);

bool budget_left(TraceContext& trace) {
  if (trace.frames.is_full())
    return trace.breaks.refuse(BreakKind::kRecursion, "too many nested calls");
  if (trace.statistics.bytecodes > kBytecodeBudget)
    return trace.breaks.refuse(BreakKind::kTraceBudget,
                               "more than 20 million instructions in one trace");
  return true;
}

Tracked start_frame(TraceContext& trace, std::unique_ptr<Frame> frame) {
  if (!budget_left(trace)) return {};
  ++trace.statistics.inlined_calls;
  Tracked result;
  Status status = run_frame(trace, *frame, result, false);
  if (status == Status::kStopped && trace.frames.depth() == 0) {
    trace.progress.stopped_frame = std::move(frame);
    return {};
  }
  trace.frames.recycle(std::move(frame));
  return status == Status::kReturn ? std::move(result) : Tracked();
}

Tracked run_root(TraceContext& trace, PyObject* const* args, int64_t stop_at) {
  auto* code = reinterpret_cast<PyCodeObject*>(trace.root->func_code);
  trace.progress.stop_at = stop_at;
  auto frame = trace.frames.make(code_info(code, trace.root->func_globals));
  frame->function = Ref::borrow(reinterpret_cast<PyObject*>(trace.root));
  frame->globals = Ref::borrow(trace.root->func_globals);
  frame->builtins = Ref::borrow(trace.root->func_builtins);
  frame->outside_function = true;
  trace.world.set_origin(frame->function.get(), trace.guards.source(SourceKind::kFunction));
  trace.world.rely_on(trace.root);
  trace.progress.path.assign(frame->info->decoded->instructions.size(), false);
  if (trace.options.offset > 0) begin_segment(trace, *frame, args);
  int count = trace.options.offset > 0 ? 0 : cpython::parameter_count(code);
  for (int i = 0; i < count; ++i) {
    Ref index = Ref::steal(PyLong_FromLong(i));
    Tracked value =
        trace.world.read(args[i], trace.guards.source(SourceKind::kArgument, nullptr, index.get()));
    if (!value) return {};
    frame->locals[static_cast<size_t>(i)] = std::move(value);
  }
  Tracked result = start_frame(trace, std::move(frame));
  if (trace.world.silence_finalisers() && result)
    return trace.refuse(
        BreakKind::kSideEffect,
        "an object with a finaliser (__del__, a generator that is not done) outlives the "
        "call");
  return result;
}

Status run_frame(TraceContext& trace, Frame& frame, Tracked& result, bool throwing) {
  const FrameStack::Entered entered(trace.frames, frame);
  for (bool raised = throwing;;) {
    try {
      return run_instructions(trace, frame, result, raised);
    } catch (const sym::Undecidable& question) {
      trace.raise_break(
          BreakKind::kDataDependent,
          std::string("a decision on a number that is read from data: ") + question.what());
      raised = true;
    }
  }
}

static Status run_instructions(TraceContext& trace, Frame& frame, Tracked& result, bool raised) {
  std::vector<Tracked>& stack = frame.stack;
  const std::vector<Instruction>& instructions = frame.info->decoded->instructions;
  PyCodeObject* code = frame.code();
  const bool is_root = trace.frames.depth() == 1;
  const int64_t stop_at = is_root ? trace.progress.stop_at : -1;

  auto pop = [&] {
    Tracked tracked = std::move(stack.back());
    stack.pop_back();
    return tracked;
  };
  auto name = [&](int index) { return PyTuple_GET_ITEM(code->co_names, index); };

  for (;;) {
    // In a finaliser, whose exceptions nobody hears of.
    if (trace.breaks.begun() && !raised) [[unlikely]]
      raised = trace.breaks.under_way();
    if (raised) {
      raised = false;
      if (trace.frames.depth() == 1) {
        trace.progress.break_at = frame.executed;
        trace.progress.break_index = frame.current();
      }
      if (!unwind(trace, frame)) return trace.progress.stopped ? Status::kStopped : Status::kError;
      if (trace.frames.depth() == 1)
        trace.progress.handling.push_back(std::exchange(trace.progress.break_at, -1));
    }
    const Instruction& in = instructions[static_cast<size_t>(frame.pc++)];
    if (++frame.executed == stop_at) {
      --frame.pc;
      trace.progress.stopped = true;
      return Status::kStopped;
    }
    if (is_root) {
      trace.progress.path[static_cast<size_t>(frame.current())] = true;
    }
    if (trace.late_calls.any() && !may_come_before_late_calls(trace, frame, in)) [[unlikely]] {
      raised = true;
      continue;
    }
    const bool lazy = trace.entry.lazy && is_root;
    if (may_make_text(in) && (lazy || trace.recording.has_symbols())) {
      bool done = false;
      if (!make_text(trace, frame, in, done)) {
        raised = true;
        continue;
      }
      if (done) continue;
    }
    if (lazy && !force_operands(trace, frame, in)) {
      raised = true;
      continue;
    }
    if ((++trace.statistics.bytecodes & 0xFFFF) == 0) {
      std::chrono::duration<double> spent = std::chrono::steady_clock::now() - trace.started;
      if (spent.count() > kSecondsBudget) {
        trace.raise_break(BreakKind::kTraceBudget, "a trace that takes longer than 10 seconds");
        raised = true;
        continue;
      }
      if (!budget_left(trace)) {
        raised = true;
        continue;
      }
      if (PyErr_CheckSignals() < 0) {
        raised = true;
        continue;
      }
    }
    switch (in.op) {
      case Opcode::kNop:
        break;
      case Opcode::kPopTop:
        stack.pop_back();
        break;
      case Opcode::kPushNull:
        stack.emplace_back();
        break;
      case Opcode::kCopy:
        stack.push_back(stack[stack.size() - static_cast<size_t>(in.arg)]);
        break;
      case Opcode::kSwap:
        std::swap(stack.back(), stack[stack.size() - static_cast<size_t>(in.arg)]);
        break;
      case Opcode::kLoadConst:
        stack.push_back(Tracked::borrow(PyTuple_GET_ITEM(code->co_consts, in.arg)));
        break;
      case Opcode::kLoadFast: {
        const Tracked& local = frame.locals[static_cast<size_t>(in.arg)];
        if (!local) {
          PyErr_Format(PyExc_UnboundLocalError,
                       "cannot access local variable '%U' where it is not associated with a value",
                       PyTuple_GET_ITEM(code->co_localsplusnames, in.arg));
          raised = true;
          break;
        }
        stack.push_back(local);
        break;
      }
      case Opcode::kStoreFast: {
        // What was there may have a finaliser that runs code: the place on the frame is changed
        // first.
        Tracked old = std::exchange(frame.locals[static_cast<size_t>(in.arg)], pop());
        break;
      }
      case Opcode::kLoadGlobal: {
        Tracked value = load_global(trace, frame, name(in.arg >> 1));
        if (!value) {
          raised = true;
          break;
        }
        bool null = in.arg & 1;
        if (null && in.null_below) stack.emplace_back();
        stack.push_back(std::move(value));
        if (null && !in.null_below) stack.emplace_back();
        break;
      }
      case Opcode::kLoadDeref: {
        Tracked value = load_deref(trace, frame, in.arg);
        if (!value) {
          raised = true;
          break;
        }
        stack.push_back(std::move(value));
        break;
      }
      case Opcode::kLoadAttr: {
        Tracked object = pop();
        Tracked value = getattr(trace, object, name(in.arg));
        if (!value) {
          raised = true;
          break;
        }
        stack.push_back(std::move(value));
        break;
      }
      case Opcode::kLoadMethod: {
        Tracked object = pop(), self;
        Tracked value = getattr(trace, object, name(in.arg), &self);
        if (!value) {
          raised = true;
          break;
        }
        if (!self && in.null_below) stack.emplace_back();
        stack.push_back(std::move(value));
        if (self || !in.null_below) stack.push_back(std::move(self));
        break;
      }
      case Opcode::kBinarySubscr: {
        Tracked key = pop(), object = pop();
        Tracked value = getitem(trace, object, key);
        if (!value) {
          raised = true;
          break;
        }
        stack.push_back(std::move(value));
        break;
      }
      case Opcode::kContainsOp: {
        Tracked container = pop(), value = pop();
        int found = contains(trace, container, value);
        if (found < 0) {
          raised = true;
          break;
        }
        stack.push_back(Tracked::borrow((found ^ in.arg) ? Py_True : Py_False));
        break;
      }
      case Opcode::kIsOp: {
        Tracked b = pop(), a = pop();
        Tracked same = is_same(trace, a, b, in.arg != 0);
        if (!same) {
          raised = true;
          break;
        }
        stack.push_back(std::move(same));
        break;
      }
      case Opcode::kJump:
        frame.pc = in.target;
        break;
      case Opcode::kPopJumpIfNone:
        if (pop().get() == Py_None) frame.pc = in.target;
        break;
      case Opcode::kPopJumpIfNotNone:
        if (pop().get() != Py_None) frame.pc = in.target;
        break;
      case Opcode::kPopJumpIfFalse:
      case Opcode::kPopJumpIfTrue:
      case Opcode::kJumpIfFalseOrPop:
      case Opcode::kJumpIfTrueOrPop: {
        bool wanted = in.op == Opcode::kPopJumpIfTrue || in.op == Opcode::kJumpIfTrueOrPop;
        bool keeps = in.op == Opcode::kJumpIfFalseOrPop || in.op == Opcode::kJumpIfTrueOrPop;
        int value = truth_for_jump(trace, frame, stack.back(), frame.current());
        if (value < 0) {
          raised = true;
          break;
        }
        bool jumps = (value != 0) == wanted;
        if (jumps) frame.pc = in.target;
        if (!jumps || !keeps) stack.pop_back();
        break;
      }
      case Opcode::kForIter: {
        bool exhausted = false;
        Tracked value = next_item(trace, stack.back(), exhausted);
        if (value) {
          stack.push_back(std::move(value));
          break;
        }
        if (!exhausted) {
          raised = true;
          break;
        }
        // A generator that has come to its end has nothing left to do.
        if (!PyGen_CheckExact(stack.back().get()) && !may_drop(trace, stack.back())) {
          raised = true;
          break;
        }
        stack.pop_back();
        frame.pc = in.target;
        break;
      }
      case Opcode::kKwNames:
        frame.kwnames = Ref::borrow(PyTuple_GET_ITEM(code->co_consts, in.arg));
        break;
      case Opcode::kCall:
      case Opcode::kCallKw: {
        if (in.op == Opcode::kCallKw) frame.kwnames = pop().object;
        auto count = static_cast<size_t>(in.arg);
        size_t base = stack.size() - count;
        Ref kwnames = std::move(frame.kwnames);
        Tracked value;
        bool has_self = stack[base - 2] && stack[base - 1];
        if (has_self)
          value = call(trace, stack[base - 2], &stack[base - 1], count + 1, kwnames.get());
        else if (Tracked& callee = stack[base - 1] ? stack[base - 1] : stack[base - 2];
                 count == 0 && callee.get() == reinterpret_cast<PyObject*>(&PySuper_Type))
          value = bare_super(trace, frame);
        else
          value = call(trace, callee, stack.data() + base, count, kwnames.get());
        if (!value) {
          raised = true;
          break;
        }
        stack.resize(base - 2);
        stack.push_back(std::move(value));
        break;
      }
      case Opcode::kReturnValue:
        result = pop();
        return Status::kReturn;
      case Opcode::kReturnConst:
        result = Tracked::borrow(PyTuple_GET_ITEM(code->co_consts, in.arg));
        return Status::kReturn;
      case Opcode::kYieldValue:
        if (is_root) {
          trace.raise_break(BreakKind::kSuspends, "a generator yields to its caller");
          raised = true;
          break;
        }
        result = pop();
        return Status::kYield;
      default:
        raised = !run_instruction(trace, frame, in);
        break;
    }
  }
}

}  // namespace braze::capture
