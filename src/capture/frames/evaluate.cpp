// Frames and the instructions that models run most; the others are in frames/instructions.cpp.
#include <cstring>

#include "capture/evaluator.h"
#include "capture/known.h"
#include "cpython/text.h"

namespace braze::capture {

using cpython::FrameView;
using cpython::Instruction;
using cpython::Opcode;

namespace {

constexpr int64_t kBytecodeBudget = 20'000'000;
constexpr double kSecondsBudget = 10;
constexpr int kMaximalDepth = 900;
constexpr size_t kStackBytes = 4 << 20;  // of the C stack, below which evaluation goes no deeper

}  // namespace

const CodeInfo& code_info(PyCodeObject* code, PyObject* globals) {
  static auto& memo = *new IdentityMap<CodeInfo*>;
  CodeInfo*& info = memo[code];
  if (!info) {
    const cpython::DecodedCode& decoded = cpython::decode(code);
    info = new CodeInfo{&decoded, code_policy(code, globals),
                        library_break(globals, cpython::utf8_of(code->co_qualname)),
                        std::vector<int>(decoded.instructions.size())};
  }
  return *info;
}

Evaluator::Evaluator(PyFunctionObject* root, PyObject* parameter_names, const Options& options)
    : breaks_(
          [](void* self, BreakReason& reason) { static_cast<Evaluator*>(self)->locate(reason); },
          this),
      world_(breaks_, recording_, root, parameter_names, options.dynamic),
      options_(options),
      root_(root),
      thread_(PyThreadState_Get()),
      started_(std::chrono::steady_clock::now()) {
  stack_limit_ = reinterpret_cast<const char*>(
      reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) - kStackBytes);
  recording_.set_origin_provider(
      [](void* self, graph::Graph& graph) { return static_cast<Evaluator*>(self)->origin(graph); },
      this);
  recording_.shapes().set_observer([this] { return place(); });
  recording_.capture_data(options.capture_scalars, options.capture_sizes);
  if (options.record_torch_calls) torch_calls_ = Ref::steal(PyList_New(0));
}

Evaluator::~Evaluator() { release_frames(); }

void Evaluator::release_frames() {
  stopped_frame_.reset();
  spare_frames_.clear();
}

std::unique_ptr<Frame> Evaluator::new_frame(const CodeInfo& info) {
  std::unique_ptr<Frame> frame;
  if (spare_frames_.empty()) {
    frame = std::make_unique<Frame>();
  } else {
    frame = std::move(spare_frames_.back());
    spare_frames_.pop_back();
  }
  frame->info = &info;
  frame->locals.resize(static_cast<size_t>(info.code()->co_nlocalsplus));
  frame->stack.reserve(static_cast<size_t>(info.code()->co_stacksize));
  return frame;
}

void Evaluator::recycle(std::unique_ptr<Frame> frame) {
  // Finalisers of what the frame held may come back here: it is emptied before it is spare.
  frame->stack.clear();
  frame->locals.clear();
  frame->function = frame->globals = frame->builtins = frame->names = frame->kwnames = Ref();
  frame->back = nullptr;
  frame->pc = 0;
  frame->executed = 0;
  frame->outside_function = false;
  spare_frames_.push_back(std::move(frame));
}

bool Evaluator::budget_left() {
  // The address of a local would do, but not where a sanitizer moves locals to the heap.
  auto* here = static_cast<const char*>(__builtin_frame_address(0));
  if (depth_ > kMaximalDepth || here < stack_limit_)
    return breaks_.refuse(BreakKind::kRecursion, "too many nested calls");
  if (statistics_.bytecodes > kBytecodeBudget)
    return breaks_.refuse(BreakKind::kTraceBudget,
                          "more than 20 million instructions in one trace");
  return true;
}

Slot Evaluator::start(std::unique_ptr<Frame> frame) {
  if (!budget_left()) return {};
  ++statistics_.inlined_calls;
  Slot result;
  Status status = run(*frame, result, false);
  if (status == Status::kStopped && depth_ == 0) {
    stopped_frame_ = std::move(frame);
    return {};
  }
  ++depth_;  // finalisers of what the frame held are not the root
  recycle(std::move(frame));
  --depth_;
  return status == Status::kReturn ? std::move(result) : Slot();
}

// --- The loop
// -------------------------------------------------------------------------------------

Slot Evaluator::run_root(PyObject* const* args, int64_t stop_at) {
  auto* code = reinterpret_cast<PyCodeObject*>(root_->func_code);
  stop_at_ = stop_at;
  auto frame = new_frame(code_info(code, root_->func_globals));
  frame->function = Ref::borrow(reinterpret_cast<PyObject*>(root_));
  frame->globals = Ref::borrow(root_->func_globals);
  frame->builtins = Ref::borrow(root_->func_builtins);
  frame->outside_function = true;
  world_.set_origin(frame->function.get(), world_.source(SourceKind::kFunction));
  world_.rely_on(root_);
  path_.assign(frame->info->decoded->instructions.size(), false);
  if (options_.offset > 0) begin_segment(*frame, args);
  int count = options_.offset > 0 ? 0 : cpython::parameter_count(code);
  for (int i = 0; i < count; ++i) {
    Ref index = Ref::steal(PyLong_FromLong(i));
    Slot value = world_.read(args[i], world_.source(SourceKind::kArgument, nullptr, index.get()));
    if (!value) return {};
    frame->locals[static_cast<size_t>(i)] = std::move(value);
  }
  Slot result = start(std::move(frame));
  if (world_.silence_finalisers() && result)
    return refuse(BreakKind::kSideEffect,
                  "an object with a finaliser (__del__, a generator that is not done) outlives the "
                  "call");
  return result;
}

Status Evaluator::run(Frame& frame, Slot& result, bool throwing) {
  frame.back = std::exchange(top_, &frame);
  ++depth_;
  struct Leave {
    Evaluator& evaluator;
    Frame* back;
    ~Leave() {
      evaluator.top_ = back;
      --evaluator.depth_;
    }
  } leave{*this, frame.back};
  for (bool raised = throwing;;) {
    try {
      return run_instructions(frame, result, raised);
    } catch (const sym::Undecidable& question) {
      raise_break(BreakKind::kDataDependent,
                  std::string("a decision on a number that is read from data: ") + question.what());
      raised = true;
    }
  }
}

Status Evaluator::run_instructions(Frame& frame, Slot& result, bool raised) {
  std::vector<Slot>& stack = frame.stack;
  const std::vector<Instruction>& instructions = frame.info->decoded->instructions;
  PyCodeObject* code = frame.code();
  const bool is_root = depth_ == 1;
  const int64_t stop_at = is_root ? stop_at_ : -1;

  auto pop = [&] {
    Slot slot = std::move(stack.back());
    stack.pop_back();
    return slot;
  };
  auto name = [&](int index) { return PyTuple_GET_ITEM(code->co_names, index); };

  for (;;) {
    // In a finaliser, whose exceptions nobody hears of.
    if (breaks_.begun() && !raised) [[unlikely]]
      raised = breaks_.under_way();
    if (raised) {
      raised = false;
      if (depth_ == 1) {
        break_at_ = frame.executed;
        break_index_ = frame.current();
      }
      if (!unwind(frame)) return stopped_ ? Status::kStopped : Status::kError;
      if (depth_ == 1) handling_.push_back(std::exchange(break_at_, -1));
    }
    const Instruction& in = instructions[static_cast<size_t>(frame.pc++)];
    if (++frame.executed == stop_at) {
      --frame.pc;
      stopped_ = true;
      return Status::kStopped;
    }
    if (is_root) {
      path_[static_cast<size_t>(frame.current())] = true;
    }
    const bool lazy = lazy_ && is_root;
    if (lazy || recording_.has_symbols()) {
      bool done = false;
      if (!make_text(frame, in, done) || (lazy && !done && !force_operands(frame, in))) {
        raised = true;
        continue;
      }
      if (done) continue;
    }
    if ((++statistics_.bytecodes & 0xFFFF) == 0) {
      std::chrono::duration<double> spent = std::chrono::steady_clock::now() - started_;
      if (spent.count() > kSecondsBudget) {
        raise_break(BreakKind::kTraceBudget, "a trace that takes longer than 10 seconds");
        raised = true;
        continue;
      }
      if (!budget_left()) {
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
        stack.push_back(Slot::borrow(PyTuple_GET_ITEM(code->co_consts, in.arg)));
        break;
      case Opcode::kLoadFast: {
        const Slot& local = frame.locals[static_cast<size_t>(in.arg)];
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
        // What was there may have a finaliser that runs code: the slot is changed first.
        Slot old = std::exchange(frame.locals[static_cast<size_t>(in.arg)], pop());
        break;
      }
      case Opcode::kLoadGlobal: {
        Slot value = load_global(frame, name(in.arg >> 1));
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
        Slot value = load_deref(frame, in.arg);
        if (!value) {
          raised = true;
          break;
        }
        stack.push_back(std::move(value));
        break;
      }
      case Opcode::kLoadAttr: {
        Slot object = pop();
        Slot value = getattr(object, name(in.arg));
        if (!value) {
          raised = true;
          break;
        }
        stack.push_back(std::move(value));
        break;
      }
      case Opcode::kLoadMethod: {
        Slot object = pop(), self;
        Slot value = getattr(object, name(in.arg), &self);
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
        Slot key = pop(), object = pop();
        Slot value = getitem(object, key);
        if (!value) {
          raised = true;
          break;
        }
        stack.push_back(std::move(value));
        break;
      }
      case Opcode::kContainsOp: {
        Slot container = pop(), value = pop();
        int found = contains(container, value);
        if (found < 0) {
          raised = true;
          break;
        }
        stack.push_back(Slot::borrow((found ^ in.arg) ? Py_True : Py_False));
        break;
      }
      case Opcode::kIsOp: {
        Slot b = pop(), a = pop();
        Slot same = is_same(a, b, in.arg != 0);
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
        int value = truth(stack.back());
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
        Slot value = next(stack.back(), exhausted);
        if (value) {
          stack.push_back(std::move(value));
          break;
        }
        if (!exhausted) {
          raised = true;
          break;
        }
        // A generator that has come to its end has nothing left to do.
        if (!PyGen_CheckExact(stack.back().get()) && !may_drop(stack.back())) {
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
        Slot value;
        bool has_self = stack[base - 2] && stack[base - 1];
        if (has_self)
          value = call(stack[base - 2], &stack[base - 1], count + 1, kwnames.get());
        else if (Slot& callee = stack[base - 1] ? stack[base - 1] : stack[base - 2];
                 count == 0 && callee.get() == reinterpret_cast<PyObject*>(&PySuper_Type))
          value = bare_super(frame);
        else
          value = call(callee, stack.data() + base, count, kwnames.get());
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
        result = Slot::borrow(PyTuple_GET_ITEM(code->co_consts, in.arg));
        return Status::kReturn;
      case Opcode::kYieldValue:
        if (is_root) {
          raise_break(BreakKind::kSuspends, "a generator yields to its caller");
          raised = true;
          break;
        }
        result = pop();
        return Status::kYield;
      default:
        raised = !run_instruction(frame, in);
        break;
    }
  }
}

}  // namespace braze::capture
