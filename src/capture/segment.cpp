// capture(): one trace, its checks, the draft.
#include "base/error.h"
#include "capture/evaluator.h"
#include "capture/known.h"
#include "capture/recipe_builder.h"
#include "capture/testing.h"

namespace braze::capture {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Off during a trace: finalisers of cycles would run inside it, and the youngest generation then is
// what the trace made.
class CollectorOff {
 public:
  CollectorOff() {
    Ref zero = Ref::steal(PyLong_FromLong(0));
    Ref done = Ref::steal(PyObject_CallOneArg(known().gc_collect, zero.get()));
    if (!done) PyErr_Clear();
    was_on_ = PyGC_Disable();
  }
  ~CollectorOff() {
    if (was_on_) PyGC_Enable();
  }
  CollectorOff(const CollectorOff&) = delete;

 private:
  int was_on_;
};

// Context variables that the traced code sets are set in a copy.
class ContextCopy {
 public:
  ContextCopy() : context_(Ref::steal(PyContext_CopyCurrent())) {
    if (context_ && PyContext_Enter(context_.get()) < 0) context_ = Ref();
  }
  ~ContextCopy() {
    if (!context_) return;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyContext_Exit(context_.get());
    PyErr_Restore(type, value, traceback);
  }
  ContextCopy(const ContextCopy&) = delete;

 private:
  Ref context_;
};

// The exception that is being handled around the call is no business of the trace.
class HandledException {
 public:
  HandledException() : handled_(Ref::steal(PyErr_GetHandledException())) {}
  ~HandledException() {
    PyErr_SetHandledException(handled_.get() == Py_None ? nullptr : handled_.get());
  }
  HandledException(const HandledException&) = delete;

 private:
  Ref handled_;
};

void add_disjoint_guards(World& world, const graph::Graph& graph,
                         const std::vector<DraftInput>& inputs) {
  std::vector<bool> written(inputs.size(), false);
  bool any = false;
  for (const auto& node : graph.nodes())
    for (int position : node->mutated_arguments()) {
      const graph::Argument& argument = node->args()[static_cast<size_t>(position)];
      std::vector<graph::Value*> values;
      if (auto* value = std::get_if<graph::Value*>(&argument)) values = {*value};
      if (auto* list = std::get_if<std::vector<graph::Value*>>(&argument)) values = *list;
      for (const graph::Value* value : values)
        for (size_t i = 0; i < inputs.size(); ++i)
          if (graph.inputs()[i].value->storage() == value->storage()) any = written[i] = true;
    }
  if (!any) return;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!written[i] || !inputs[i].source) continue;
    for (size_t j = 0; j < inputs.size(); ++j) {
      if (i == j || !inputs[j].source || (written[j] && j < i)) continue;
      bool shared = share_storage(inputs[i].tensor.get(), inputs[j].tensor.get());
      world.guard(GuardKind::kDisjointStorage, inputs[i].source, shared ? Py_True : Py_False,
                  inputs[j].source);
    }
  }
}

class Capture {
 public:
  Capture(PyFunctionObject* function, PyObject* const* args, const Options& options)
      : function_(function),
        args_(args),
        options_(options),
        code_(reinterpret_cast<PyCodeObject*>(function->func_code)),
        names_(Ref::steal(
            PyTuple_GetSlice(code_->co_localsplusnames, 0, cpython::parameter_count(code_)))) {}

  std::unique_ptr<Draft> run() {
    constexpr int kSuspends = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
    if (code_->co_flags & kSuspends)
      return give_up({BreakKind::kSuspends, "a generator or coroutine", {}});
    std::unique_ptr<Draft> draft = trace(-1);
    if (!draft || draft->exit == ExitKind::kReturn || break_at_ <= 1 ||
        draft->reason->kind == BreakKind::kException)
      return draft;
    // What the trace made was changed for real, so there is no way back within it: it is thrown
    // away and run again up to the breaking instruction.
    std::unique_ptr<Draft> prefix = trace(break_at_);
    if (!prefix) return PyErr_Occurred() ? nullptr : std::move(draft);
    if (prefix->exit != ExitKind::kGiveUp || prefix->graph.nodes().empty()) return draft;
    prefix->reason = std::move(draft->reason);
    return prefix;
  }

 private:
  static std::unique_ptr<Draft> give_up(BreakReason reason) {
    auto draft = std::make_unique<Draft>();
    draft->exit = ExitKind::kGiveUp;
    draft->sources = std::make_shared<guard::SourceArena>();
    draft->reason = std::move(reason);
    return draft;
  }

  // One trace. With `stop_at`: again, up to that instruction of the root frame; null if the state
  // there cannot be expressed. Null with an exception pending if the capture was interrupted.
  std::unique_ptr<Draft> trace(int64_t stop_at) {
    auto start = Clock::now();
    CollectorOff collector;
    HandledException handled;
    ContextCopy context;
    Evaluator evaluator(function_, names_.get(), options_);
    Slot result;
    bool unchanged;
    {
      cpython::HookScope hook(&Evaluator::hook, &evaluator);
      evaluator.recording().start();
      result = evaluator.run_root(args_, stop_at);
      unchanged = evaluator.recording().stop();
    }
    evaluator.breaks().rethrow_defect();
    if (evaluator.interrupted()) return nullptr;
    double trace_seconds = seconds_since(start);
    auto draft = std::make_unique<Draft>();
    const bool stopped = stop_at >= 0 && evaluator.stopped_frame();
    bool built = (result || stopped) && check(evaluator, unchanged) &&
                 (stopped ? build_state(evaluator, *draft) : build(evaluator, result, *draft));
    if (!built) {
      if (stop_at >= 0) {
        PyErr_Clear();
        return nullptr;
      }
      break_at_ = result ? -1 : evaluator.break_at();
      BreakReason reason = reason_of(evaluator);
      PyErr_Clear();
      draft = give_up(std::move(reason));
    }
    draft->statistics = evaluator.statistics();
    draft->statistics.guards = static_cast<int64_t>(draft->guards.size());
    draft->statistics.nodes = static_cast<int64_t>(draft->graph.nodes().size());
    draft->statistics.trace_seconds = trace_seconds;
    draft->statistics.total_seconds = seconds_since(start);
    return draft;
  }

  // What must hold at the end of the traced code.
  static bool check(Evaluator& evaluator, bool unchanged) {
    if (!unchanged)
      return evaluator.breaks().refuse(
          BreakKind::kTorchState, "torch's thread state (grad mode, autocast) is not as it was");
    if (evaluator.context_changed())
      return evaluator.breaks().refuse(BreakKind::kContextVariable, "a context variable was set");
    if (evaluator.recording().needs_autograd())
      return evaluator.breaks().refuse(BreakKind::kAutograd,
                                       "an operation in grad mode on a tensor that requires grad");
    return true;
  }

  static BreakReason reason_of(Evaluator& evaluator) {
    if (evaluator.breaks().reason()) return *evaluator.breaks().reason();
    Ref error = take_exception();
    if (!error) return {BreakKind::kUnsupported, "unknown", {}};
    return {BreakKind::kException, describe_exception(error.get()), evaluator.error_stack()};
  }

  static bool build(Evaluator& evaluator, const Slot& result, Draft& draft) {
    RecipeBuilder builder(evaluator);
    int step = builder.value(result.get());
    if (step < 0 || !builder.side_effects()) return false;
    builder.recipe.result = step;
    draft.exit = ExitKind::kReturn;
    finish(evaluator, builder, draft);
    if (draft.torch_calls) draft.result = result.object;
    return true;
  }

  // The state of the root frame before the breaking instruction.
  static bool build_state(Evaluator& evaluator, Draft& draft) {
    const Frame& frame = *evaluator.stopped_frame();
    const auto& instructions = frame.info->decoded->instructions;
    auto at = static_cast<size_t>(frame.pc);
    // The names of keyword arguments belong to no stack entry: their instruction is run again.
    if (at > 0 && frame.kwnames && instructions[at - 1].op == cpython::Opcode::kKwNames) --at;
    if (!instructions[at].enterable) return false;
    RecipeBuilder builder(evaluator);
    auto states = [&](const std::vector<Slot>& slots, std::vector<int>& steps) {
      for (const Slot& slot : slots) {
        steps.push_back(slot ? builder.value(slot.get()) : -1);
        if (slot && steps.back() < 0) return false;
      }
      return true;
    };
    std::vector<int> locals, stack;
    if (!states(frame.locals, locals) || !states(frame.stack, stack) || !builder.side_effects())
      return false;
    builder.recipe.locals = std::move(locals);
    builder.recipe.stack = std::move(stack);
    builder.recipe.offset = instructions[at].offset;
    draft.exit = ExitKind::kGiveUp;
    finish(evaluator, builder, draft);
    return true;
  }

  static void finish(Evaluator& evaluator, RecipeBuilder& builder, Draft& draft) {
    Recording::Result recorded = evaluator.recording().finish(builder.outputs);
    draft.graph = std::move(recorded.graph);
    World& world = evaluator.world();
    for (Ref& tensor : recorded.inputs) {
      const Source* source = world.source_of(tensor.get());
      draft.inputs.push_back({source, std::move(tensor)});
    }
    add_disjoint_guards(world, draft.graph, draft.inputs);
    builder.prune();
    draft.recipe = std::move(builder.recipe);
    draft.sources = world.sources();
    draft.guards = world.take_guards();
    draft.torch_calls = evaluator.torch_calls();
    if (draft.torch_calls) {
      draft.outputs = Ref::steal(PyList_New(0));
      for (PyObject* tensor : builder.outputs) PyList_Append(draft.outputs.get(), tensor);
    }
  }

  PyFunctionObject* function_;
  PyObject* const* args_;
  const Options& options_;
  PyCodeObject* code_;
  Ref names_;
  int64_t break_at_ = -1;
};

}  // namespace

std::unique_ptr<Draft> capture(PyFunctionObject* function, PyObject* const* args,
                               const Options& options) {
  return Capture(function, args, options).run();
}

bool initialize(PyObject* module) {
  return initialize_known() && initialize_builtin_rules() && add_test_functions(module);
}

}  // namespace braze::capture
