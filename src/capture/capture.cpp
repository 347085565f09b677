// capture(): one trace, its checks, the draft.
#include <algorithm>

#include "base/error.h"
#include "capture/calls/context_variables.h"
#include "capture/exit/memory_guards.h"
#include "capture/exit/recipe_builder.h"
#include "capture/exit/shape_guards.h"
#include "capture/frames/evaluate.h"
#include "capture/frames/hook.h"
#include "capture/known.h"
#include "capture/recording/scopes.h"
#include "capture/trace_context.h"

namespace braze::capture {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What the trace made goes while the hook is there, so that the handlers of generators that are
// closed by it do not run for real.
struct EndOfTrace {
  TraceContext& trace;
  Tracked& result;
  ~EndOfTrace() {
    cpython::HookScope hook(frame_hook, &trace);
    trace.end();
    result = Tracked();
  }
};

bool has_unbacked_marks(TraceContext& trace) {
  for (const World::SymbolicTensor& input : trace.world.symbolic_tensors())
    for (const DynamicDimension& dim : input.dims)
      if (dim.mark.unbacked) return true;
  return false;
}

class Capture {
 public:
  Capture(PyFunctionObject* function, PyObject* const* args, const Options& options)
      : function_(function),
        args_(args),
        options_(options),
        code_(reinterpret_cast<PyCodeObject*>(function->func_code)),
        decoded_(cpython::decode(code_)),
        names_(entry_names(code_, options)) {}

  std::unique_ptr<Draft> run() {
    // A generator's frame starts with its object: its segments begin where it is resumed.
    constexpr int kSuspends = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
    if (options_.offset == 0 && (code_->co_flags & kSuspends) != 0)
      return give_up({BreakKind::kSuspends, "a generator or coroutine", {}});
    std::unique_ptr<Draft> draft = run_trace(-1);
    if (!draft) return nullptr;
    if (draft->exit == ExitKind::kReturn) {
      if (!options_.thrifty || !draft->graph.nodes().empty()) return draft;
      return left_to_cpython();
    }
    if (break_at_ < 1) return draft;
    if (leaves_by_exception_) return up_to_exception(std::move(draft));
    if (draft->reason->kind == BreakKind::kException) return draft;
    const int resume_at = resume_index(break_index_);
    if (resume_at < 0) return draft;
    std::vector<int> leaves = leaves_of_path(resume_at);
    if (break_at_ > 1) {
      // What the trace made was changed for real, so there is no way back within it: it is thrown
      // away and run again up to the breaking instruction.
      std::unique_ptr<Draft> prefix = run_trace(break_at_);
      if (!prefix && PyErr_Occurred()) return nullptr;
      if (!prefix && prefix_needs_autograd_) return draft;
      if (prefix && prefix->exit == ExitKind::kBreak && !prefix->graph.nodes().empty()) {
        prefix->reason = std::move(draft->reason);
        prefix->leaves = std::move(leaves);
        return prefix;
      }
    }
    // Nothing to compute before the break, or no way to hand it over: CPython takes that path.
    draft->exit = ExitKind::kBreak;
    draft->recipe.offset = decoded_.instructions[static_cast<size_t>(resume_at)].offset;
    draft->leaves = std::move(leaves);
    return draft;
  }

 private:
  static std::unique_ptr<Draft> give_up(BreakReason reason) {
    auto draft = std::make_unique<Draft>();
    draft->exit = ExitKind::kGiveUp;
    draft->sources = std::make_shared<guard::SourceArena>();
    draft->reason = std::move(reason);
    return draft;
  }

  // What flies out of the function is raised by the frame itself, put into the state before the
  // instruction that raises it: with the real traceback. An exception that was caught on the way
  // has frames of its own, so the frame goes on before that one was raised.
  std::unique_ptr<Draft> up_to_exception(std::unique_ptr<Draft> whole) {
    for (int64_t stop_at : {break_at_, handling_since_}) {
      if (stop_at < 1) continue;
      std::unique_ptr<Draft> prefix = run_trace(stop_at);
      if (!prefix && PyErr_Occurred()) return nullptr;
      if (!prefix) continue;
      if (options_.thrifty && prefix->graph.nodes().empty()) return left_to_cpython();
      prefix->exit = ExitKind::kRaise;
      prefix->only_python_follows = recorded_ == recorded_by_whole_;
      return prefix;
    }
    return whole;
  }

  static std::unique_ptr<Draft> left_to_cpython() {
    auto draft = give_up({});
    draft->reason.reset();
    return draft;
  }

  // Where a frame goes on before this instruction; -1: nowhere.
  int resume_index(int at) const {
    const auto& instructions = decoded_.instructions;
    auto op = [&](int i) { return instructions[static_cast<size_t>(i)].op; };
    // The names of keyword arguments belong to no stack entry: their instruction is run again.
    if (at > 0 && op(at) == cpython::Opcode::kCall && op(at - 1) == cpython::Opcode::kKwNames) --at;
    while (at > 0 && !instructions[static_cast<size_t>(at)].enterable) --at;
    return is_behind_prologue(at) ? at : -1;
  }

  bool is_behind_prologue(int at) const {
    return decoded_.instructions[static_cast<size_t>(at)].offset > code_->_co_firsttraceable;
  }

  // Code units of the instructions that follow the evaluated ones but were not evaluated, and of
  // `resume_at`.
  std::vector<int> leaves_of_path(int resume_at) const {
    const auto& instructions = decoded_.instructions;
    std::vector<bool> leaves(instructions.size(), false);
    auto add = [&](int at) {
      if (at < 0 || at >= static_cast<int>(instructions.size())) return;
      const int offset = instructions[static_cast<size_t>(at)].offset;
      const auto real = static_cast<size_t>(decoded_.index_of_offset(offset));
      if (!path_[real] && is_behind_prologue(static_cast<int>(real))) leaves[real] = true;
    };
    for (size_t i = 0; i < path_.size(); ++i) {
      if (!path_[i] || static_cast<int>(i) == break_index_) continue;
      const cpython::Instruction& in = instructions[i];
      const bool goes_on =
          in.op != cpython::Opcode::kJump && in.op != cpython::Opcode::kKwNames &&
          in.op != cpython::Opcode::kReturnValue && in.op != cpython::Opcode::kReturnConst &&
          in.op != cpython::Opcode::kReraise && in.op != cpython::Opcode::kRaiseVarargs;
      if (goes_on) add(static_cast<int>(i) + 1);
      add(in.target);
      if (const auto* handler = decoded_.handler(static_cast<int>(i))) add(handler->target);
    }
    leaves[static_cast<size_t>(resume_at)] = true;
    std::vector<int> offsets;
    for (size_t i = 0; i < leaves.size(); ++i)
      if (leaves[i]) offsets.push_back(instructions[i].offset);
    return offsets;
  }

  // One trace. With `stop_at`: again, up to that instruction of the root frame; null if the state
  // there cannot be expressed. Null with an exception pending if the capture was interrupted.
  std::unique_ptr<Draft> run_trace(int64_t stop_at) {
    auto start = Clock::now();
    CollectorOff collector;
    HandledException handled;
    ContextCopy context;
    TraceContext trace(function_, names_.get(), options_);
    trace.constants = &constants_;
    Tracked result;
    const EndOfTrace end{trace, result};
    bool unchanged, same_handled;
    {
      cpython::HookScope hook(frame_hook, &trace);
      trace.recording.start();
      result = run_root(trace, args_, stop_at);
      unchanged = trace.recording.stop(trace.state_guards);
      same_handled = !handled.changed();
    }
    if (trace.made_class) collector.collect_after();
    trace.breaks.rethrow_defect();
    if (trace.interrupted) return nullptr;
    double trace_seconds = seconds_since(start);
    auto draft = std::make_unique<Draft>();
    const bool stopped = stop_at >= 0 && trace.progress.stopped_frame;
    prefix_needs_autograd_ = stopped && trace.recording.needs_autograd();
    bool built = (result || stopped) && check(trace, unchanged, same_handled) &&
                 (stopped ? build_state(trace, *draft) : build(trace, result, *draft));
    if (!built) {
      if (stop_at >= 0) {
        PyErr_Clear();
        return nullptr;
      }
      break_at_ = result ? -1 : trace.progress.break_at;
      break_index_ = trace.progress.break_index;
      path_ = trace.progress.path;
      leaves_by_exception_ = !result && !trace.breaks.reason() && PyErr_Occurred();
      if (leaves_by_exception_) {
        handling_since_ = trace.progress.handling_since();
        if (!trace.recording.has_symbols()) {
          raising_guards_ = trace.guards.take();
          raising_sources_ = trace.guards.arena();
        }
      }
      BreakReason reason = reason_of(trace);
      PyErr_Clear();
      draft = give_up(std::move(reason));
    }
    recorded_ = trace.origins.recorded_nodes();
    if (stop_at < 0) recorded_by_whole_ = recorded_;
    draft->had_symbols = trace.recording.has_numbers_as_symbols() && !has_unbacked_marks(trace);
    draft->statistics = trace.statistics;
    draft->statistics.guards = static_cast<int64_t>(draft->guards.size());
    draft->statistics.nodes = static_cast<int64_t>(draft->graph.nodes().size());
    draft->statistics.trace_seconds = trace_seconds;
    draft->statistics.total_seconds = seconds_since(start);
    return draft;
  }

  // What must hold at the end of the traced code.
  static bool check(TraceContext& trace, bool unchanged, bool same_handled) {
    if (trace.breaks.under_way()) return false;  // in the finaliser of a local
    if (!unchanged)
      return trace.breaks.refuse(BreakKind::kTorchState,
                                 "torch's thread state (grad mode, autocast) is not as it was");
    if (!same_handled)
      return trace.breaks.refuse(BreakKind::kSideEffect,
                                 "an exception is caught and still being handled");
    if (context_changed(trace))
      return trace.breaks.refuse(BreakKind::kContextVariable, "a context variable was set");
    if (trace.torch_calls && trace.recording.needs_autograd())
      return trace.breaks.refuse(BreakKind::kAutograd,
                                 "an operation in grad mode on a tensor that requires grad");
    return true;
  }

  static BreakReason reason_of(TraceContext& trace) {
    if (trace.breaks.reason()) return *trace.breaks.reason();
    Ref error = take_exception();
    if (!error) return {BreakKind::kUnsupported, "unknown", {}};
    return {BreakKind::kException, describe_exception(error.get()), {}};
  }

  bool build(TraceContext& trace, const Tracked& result, Draft& draft) const {
    RecipeBuilder builder(trace);
    int action = builder.value(result);
    if (action < 0 || !builder.side_effects()) return false;
    builder.recipe.result = action;
    draft.exit = ExitKind::kReturn;
    draft.traced = true;
    if (!finish(trace, builder, draft)) return false;
    if (draft.torch_calls) draft.result = result.object;
    return true;
  }

  // The state of the root frame before the breaking instruction.
  bool build_state(TraceContext& trace, Draft& draft) const {
    const Frame& frame = *trace.progress.stopped_frame;
    const int at = resume_index(frame.pc);
    if (at < 0 || (at != frame.pc && !frame.kwnames)) return false;
    RecipeBuilder builder(trace);
    std::vector<int> locals, stack;
    for (size_t i = 0; i < frame.locals.size(); ++i) {
      const Tracked& tracked = frame.locals[i];
      const bool unchanged = options_.offset > 0 && is_unchanged(tracked, i);
      const bool filled = tracked || tracked.unread;
      locals.push_back(unchanged ? Recipe::kUnchanged
                       : filled  ? builder.value(tracked)
                                 : Recipe::kUnset);
      if (filled && !unchanged && locals.back() < 0) return false;
    }
    for (const Tracked& tracked : frame.stack) {
      const bool filled = tracked || tracked.unread;
      stack.push_back(filled ? builder.value(tracked) : Recipe::kUnset);
      if (filled && stack.back() < 0) return false;
    }
    if (!builder.side_effects()) return false;
    builder.recipe.locals = std::move(locals);
    builder.recipe.stack = std::move(stack);
    builder.recipe.offset = decoded_.instructions[static_cast<size_t>(at)].offset;
    draft.exit = ExitKind::kBreak;
    draft.traced = true;
    return finish(trace, builder, draft);
  }

  // The local is what the segment found there.
  bool is_unchanged(const Tracked& tracked, size_t index) const {
    if (tracked.get() != args_[index]) return false;
    if (tracked && PyCell_Check(tracked.get())) return true;
    return tracked.source && tracked.source->kind == SourceKind::kArgument &&
           PyLong_AsSize_t(tracked.source->key.get()) == index;
  }

  // The backward of a torch.autograd.Function is code of the user's, and traced as such, also where
  // the trace has stopped in front of a break.
  static bool differentiate(TraceContext& trace, RecipeBuilder& builder) {
    const size_t effects = effects_so_far(trace);
    std::string why;
    {
      const bool stopped = std::exchange(trace.progress.stopped, false);
      cpython::HookScope hook(frame_hook, &trace);
      why = trace.recording.differentiate(builder.outputs);
      trace.progress.stopped = stopped;
    }
    if (why.empty() && effects_so_far(trace) != effects) why = "a backward with side effects";
    return why.empty() || trace.breaks.refuse(BreakKind::kAutograd, why);
  }

  // False where there is no backward.
  bool finish(TraceContext& trace, RecipeBuilder& builder, Draft& draft) const {
    draft.user_error = broken_marks(trace);
    if (std::ranges::any_of(builder.outputs, requires_grad) && !differentiate(trace, builder))
      return false;
    Recording::Result recorded = trace.recording.finish(builder.outputs);
    draft.graph = std::move(recorded.graph);
    draft.joint = std::move(recorded.joint);
    World& world = trace.world;
    for (Ref& tensor : recorded.inputs) {
      const Source* source = world.source_of(tensor.get());
      if (trace.gradients_dropped_early.contains(tensor.get()))
        draft.dropped_gradients.push_back(static_cast<int>(draft.inputs.size()));
      draft.inputs.push_back({source, std::move(tensor)});
    }
    for (const VaryingFloat& symbol : world.floats().all())
      for (size_t i = 0; symbol.real && i < draft.inputs.size(); ++i)
        if (draft.inputs[i].tensor.get() == symbol.real.get()) {
          draft.float_inputs.push_back(static_cast<int>(i));
          draft.shapes.floats.push_back(symbol.sources[0]);
        }
    for (const Source* source : world.floats().fixed())
      draft.fixed_floats.push_back(trace.guards.text_of(source));
    // What decides that the exception is raised may be read behind the exit.
    for (const guard::Guard& guard : raising_guards_) trace.guards.add_again(guard);
    add_memory_guards(world, draft.graph, draft.inputs);
    builder.prune();
    draft.recipe = std::move(builder.recipe);
    add_shape_guards(trace, recorded, draft);
    draft.sources = trace.guards.arena();
    draft.guards = trace.guards.take();
    draft.torch_calls = trace.torch_calls;
    draft.outputs = Ref::steal(PyList_New(0));
    for (PyObject* tensor : builder.outputs) PyList_Append(draft.outputs.get(), tensor);
    return true;
  }

  PyFunctionObject* function_;
  PyObject* const* args_;
  const Options& options_;
  PyCodeObject* code_;
  const cpython::DecodedCode& decoded_;
  Ref names_;
  int64_t break_at_ = -1;
  int break_index_ = -1;
  std::vector<bool> path_;
  ConstantResults constants_;
  bool prefix_needs_autograd_ = false;
  // Of the whole trace that ended in an exception.
  bool leaves_by_exception_ = false;
  int64_t handling_since_ = -1;
  int64_t recorded_ = 0, recorded_by_whole_ = 0;  // tensor operations: of the last trace, of all
  guard::Guards raising_guards_;
  std::shared_ptr<guard::SourceArena> raising_sources_;
};

}  // namespace

Ref entry_names(PyCodeObject* code, const Options& options) {
  if (options.offset == 0)
    return Ref::steal(
        PyTuple_GetSlice(code->co_localsplusnames, 0, cpython::parameter_count(code)));
  const int locals = code->co_nlocalsplus;
  Ref names = Ref::steal(PyTuple_New(locals + options.stack_size));
  for (int i = 0; names && i < locals + options.stack_size; ++i)
    PyTuple_SET_ITEM(names.get(), i,
                     i < locals ? Py_NewRef(PyTuple_GET_ITEM(code->co_localsplusnames, i))
                                : PyUnicode_FromFormat("stack[%d]", i - locals));
  return names;
}

std::unique_ptr<Draft> capture(PyFunctionObject* function, PyObject* const* args,
                               const Options& options) {
  return Capture(function, args, options).run();
}

bool initialize() { return initialize_known() && initialize_builtin_rules(); }

}  // namespace braze::capture
