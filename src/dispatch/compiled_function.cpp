// What a call of a compiled function does: binds the arguments, finds the entry that fits, runs it;
// on a miss, compiles.
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cpython/frame.h"
#include "dispatch/compile_mutex.h"
#include "dispatch/compiler.h"
#include "dispatch/controls.h"
#include "dispatch/entry.h"
#include "dispatch/frame_driver.h"
#include "dispatch/function_object.h"
#include "dispatch/recompiles.h"
#include "dispatch/report.h"

namespace braze::dispatch {

using cpython::Ref;

struct FunctionState {
  Settings settings;
  size_t most_inputs = 0;                       // over all entries
  std::vector<std::shared_ptr<Entry>> entries;  // newest last
  std::shared_ptr<Segments> segments = std::make_shared<Segments>();
  bool limit_told = false;
  capture::DynamicSizes dynamic;  // what the calls so far have shown
  // Of a generator function: for the code that it had last. Null: its generators run in eager.
  std::unique_ptr<cpython::Resumable> resumable;
  Ref resumable_code;
};

namespace {

using State = FunctionState;

PyObject* parameter_names_of(PyFunctionObject* function) {  // borrowed: the code's co_varnames
  return reinterpret_cast<PyCodeObject*>(function->func_code)->co_localsplusnames;
}

// Arguments as the underlying function takes them.
class FullArguments {
 public:
  FullArguments(CompiledFunction* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    count_ = PyVectorcall_NARGS(nargsf);
    kwnames_ = kwnames;
    if (!self->self) {
      args_ = args;
      return;
    }
    size_t total = count_ + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    if (total + 1 > kInline) {
      heap_.resize(total + 1);
      storage_ = heap_.data();
    }
    storage_[0] = self->self;
    std::copy(args, args + total, storage_ + 1);
    args_ = storage_;
    ++count_;
  }
  CallArguments get() const { return {args_, count_, kwnames_}; }

 private:
  static constexpr size_t kInline = 16;
  PyObject* inline_[kInline];
  std::vector<PyObject*> heap_;
  PyObject** storage_ = inline_;
  PyObject* const* args_ = nullptr;
  size_t count_ = 0;
  PyObject* kwnames_ = nullptr;
};

PyObject* run_original(CompiledFunction* self, const CallArguments& call) {
  return PyObject_Vectorcall(self->function, call.args, call.nargsf, call.kwnames);
}

bool makes_generators(const CompiledFunction* self) {
  auto* code = reinterpret_cast<PyCodeObject*>(
      reinterpret_cast<PyFunctionObject*>(self->function)->func_code);
  constexpr int kSuspends = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  return (code->co_flags & kSuspends) != 0 && cpython::Resumable::is_possible() &&
         !self->state->settings.fullgraph;
}

void prepare_generators(CompiledFunction* self) {
  State& state = *self->state;
  auto* function = reinterpret_cast<PyFunctionObject*>(self->function);
  if (state.resumable_code.get() == function->func_code) return;
  state.resumable.reset();
  state.resumable_code = Ref::borrow(function->func_code);
  auto context =
      std::make_shared<GeneratorContext>(GeneratorContext{state.settings, state.segments});
  try {
    state.resumable =
        make_resumable(reinterpret_cast<PyCodeObject*>(function->func_code), std::move(context));
  } catch (const std::exception& error) {
    PyErr_Clear();
    report_defect(function, "its generators run in eager", error.what());
  }
}

// The generator is CPython's, made by the function itself; what it does between two yields is
// compiled when it is resumed.
PyObject* make_generator(CompiledFunction* self, const CallArguments& call) {
  prepare_generators(self);
  PyObject* made = run_original(self, call);
  State& state = *self->state;
  if (!made || !state.resumable) return made;
  auto known = state.segments->codes.find(state.resumable->code());
  if (known == state.segments->codes.end() || !known->second->left_to_cpython)
    state.resumable->take_over(made);
  return made;
}

std::string reason_of_miss(const State& state, PyFunctionObject* function, PyObject* const* bound) {
  return reason_of_miss(std::span(state.entries), bound, parameter_names_of(function));
}

// Says on stderr, once, that the limit of recompiles is reached: later misses run in eager.
void tell_limit(State& state, PyFunctionObject* function, PyObject* const* bound) {
  if (std::exchange(state.limit_told, true)) return;
  log::warning(describe(function) +
               ": recompile_limit=" + std::to_string(state.settings.recompile_limit) +
               " is reached, calls that fit nothing compiled run in eager. The last: " +
               reason_of_miss(state, function, bound));
}

PyObject* raise_graph_break(const capture::BreakReason& reason) {
  std::string text = "fullgraph=True, but the whole function cannot be captured. [E113]\n" +
                     capture::to_string(reason);
  PyErr_SetString(graph_break_error(), text.c_str());
  return nullptr;
}

PyObject* raise_recompile(State& state, PyFunctionObject* function, PyObject* const* bound) {
  std::string why = state.entries.empty() ? std::string("it has not been compiled yet")
                                          : reason_of_miss(state, function, bound);
  PyErr_Format(PyExc_RuntimeError,
               "%s would be compiled, which the stance 'fail_on_recompile' forbids: %s [E111]",
               describe(function).c_str(), why.c_str());
  return nullptr;
}

// Reasons that fullgraph=True does not turn into an error: the code is fine, the call is not one to
// compile.
bool runs_eagerly_under_fullgraph(const capture::BreakReason& reason) {
  return reason.kind == capture::BreakKind::kAutograd;
}

// Goes on behind the break that `entry` ends in.
PyObject* run_behind_break(CompiledFunction* self, const std::shared_ptr<Entry>& entry,
                           const CallArguments& call, std::vector<Ref> values) {
  const std::shared_ptr<Segments> segments = self->state->segments;
  DriverContext context{self->state->settings, *segments};
  return call_with_breaks(context, reinterpret_cast<PyFunctionObject*>(self->function), call, entry,
                          std::move(values));
}

bool goes_on_behind_break(CompiledFunction* self, const Entry& entry) {
  if (!goes_on_in_frame(entry.exit) || !cpython::can_be_driven(self->function)) return false;
  if (cpython::LiveFrame::is_watched(PyThreadState_Get())) return false;
  auto* code = reinterpret_cast<PyCodeObject*>(
      reinterpret_cast<PyFunctionObject*>(self->function)->func_code);
  if (code != entry.code) return false;  // the function has been given another
  auto known = self->state->segments->codes.find(code);
  return known == self->state->segments->codes.end() || !known->second->left_to_cpython ||
         entry.kind != EntryKind::kEager;
}

// Much of what a first call does is done once (state of optimizers, caches, lazy layers), so that
// the second may do without the break that the first began with. Empty where it cannot, or with an
// exception pending.
std::shared_ptr<Entry> capture_again(CompiledFunction* self, const std::shared_ptr<Entry>& first,
                                     PyObject* const* bound,
                                     std::vector<c10::TensorImpl*>& inputs) {
  State& state = *self->state;
  if (stance() != Stance::kDefault || state.settings.fullgraph ||
      static_cast<int64_t>(state.entries.size()) >= state.settings.recompile_limit)
    return nullptr;
  std::unique_lock lock(compile_mutex(), std::try_to_lock);
  if (!lock || capturing()) return nullptr;
  auto* function = reinterpret_cast<PyFunctionObject*>(self->function);
  std::shared_ptr<Entry> entry = compile_entry(function, bound, state.settings, {}, &state.dynamic);
  lock.unlock();
  if (!entry || entry->kind == EntryKind::kEager) return nullptr;
  // The first would take whatever call the new one does not fit.
  std::erase(state.entries, first);
  publish(state.entries, entry);
  state.most_inputs = std::max(state.most_inputs, entry->input_count);
  inputs.assign(entry->input_count + 1, nullptr);
  return entry->guards->check(bound, inputs.data()) ? entry : nullptr;
}

PyObject* run_entry(CompiledFunction* self, const std::shared_ptr<Entry>& hold,
                    PyObject* const* bound, const CallArguments& call,
                    c10::TensorImpl* const* inputs) {
  Entry& entry = *hold;
  const bool goes_on = goes_on_behind_break(self, entry);
  if (goes_on && entry.kind == EntryKind::kEager) {
    if (++entry.calls == 2 && entry.exit == capture::ExitKind::kBreak) {
      std::vector<c10::TensorImpl*> own_inputs;
      const std::shared_ptr<Entry> better = capture_again(self, hold, bound, own_inputs);
      if (better) return run_entry(self, better, bound, call, own_inputs.data());
      if (PyErr_Occurred()) return nullptr;
    }
    return run_behind_break(self, hold, call, {});
  }
  if (goes_on_in_frame(entry.exit) && !goes_on) return run_original(self, call);
  PyObject* result = nullptr;
  std::vector<Ref> values;
  std::string why;
  switch (entry.run(reinterpret_cast<PyFunctionObject*>(self->function), bound, inputs, &result,
                    values, &why)) {
    case Entry::Outcome::kDone:
      if (goes_on && !PyErr_Occurred())
        return run_behind_break(self, hold, call, std::move(values));
      return result;
    case Entry::Outcome::kRunEager:
      return run_original(self, call);
    case Entry::Outcome::kBroken:
      retire(entry, reinterpret_cast<PyFunctionObject*>(self->function), why);
      return run_original(self, call);
    case Entry::Outcome::kBrokenHalfway:
      retire(entry, reinterpret_cast<PyFunctionObject*>(self->function), why);
      return nullptr;
  }
  return nullptr;
}

// Finds the entry that fits into `hold`. One that takes more tensors than `inputs` has room
// for was made meanwhile by another thread.
bool find_entry(State& state, PyObject* const* bound, std::span<c10::TensorImpl*> inputs,
                std::shared_ptr<Entry>& hold) {
  return find_newest_first(state.entries, hold, [&](Entry& entry) {
    return entry.input_count <= inputs.size() && entry.guards->check(bound, inputs.data());
  });
}

PyObject* compile_and_run(CompiledFunction* self, PyObject* const* bound,
                          const CallArguments& call) {
  State& state = *self->state;
  auto* function = reinterpret_cast<PyFunctionObject*>(self->function);
  if (stance() == Stance::kEagerOnRecompile) return run_original(self, call);
  if (stance() == Stance::kFailOnRecompile) return raise_recompile(state, function, bound);
  if (static_cast<int64_t>(state.entries.size()) >= state.settings.recompile_limit) {
    tell_limit(state, function, bound);
    return run_original(self, call);
  }
  std::unique_lock lock(compile_mutex(), std::try_to_lock);
  if (!lock || capturing()) return run_original(self, call);
  std::vector<c10::TensorImpl*> inputs(state.most_inputs + 1, nullptr);
  std::shared_ptr<Entry> hold;
  if (find_entry(state, bound, inputs, hold)) {  // made meanwhile
    lock.unlock();
    return run_entry(self, hold, bound, call, inputs.data());
  }
  if (!state.entries.empty() && log::enabled(log::Component::kRecompiles))
    log::write(log::Component::kRecompiles,
               describe(function) + ": compiled again, " + reason_of_miss(state, function, bound));
  learn_what_varies(state.dynamic, state.entries, bound, parameter_names_of(function));
  std::shared_ptr<Entry> entry = compile_entry(function, bound, state.settings, {}, &state.dynamic);
  lock.unlock();
  if (!entry) return nullptr;
  if (entry->reason && state.settings.fullgraph && !runs_eagerly_under_fullgraph(*entry->reason)) {
    if (entry->reason->kind == capture::BreakKind::kException) {
      // If eager raises too, the error is the user's own.
      Ref result = Ref::steal(run_original(self, call));
      if (!result) return nullptr;
    }
    return raise_graph_break(*entry->reason);
  }
  publish(state.entries, entry);
  state.most_inputs = std::max(state.most_inputs, entry->input_count);
  inputs.assign(entry->input_count + 1, nullptr);
  if (!entry->guards->check(bound, inputs.data())) {
    std::string why = entry->guards->why_not(bound, parameter_names_of(function));
    if (entry->kind == EntryKind::kEager) return run_original(self, call);
    report_unheld_guards(function, why);
    return run_original(self, call);
  }
  return run_entry(self, entry, bound, call, inputs.data());
}

}  // namespace

FunctionState* make_state(Settings settings) {
  auto* state = new FunctionState;
  state->dynamic.mode = settings.dynamic;
  state->settings = std::move(settings);
  return state;
}

void destroy(FunctionState* state) { delete state; }

void drop_entries(FunctionState& state) {
  auto entries = std::move(state.entries);
  state.entries.clear();
}

void reset(FunctionState& state) {
  drop_entries(state);
  state.dynamic = {.mode = state.settings.dynamic};
  state.limit_told = false;
  state.segments = std::make_shared<Segments>();
  state.resumable.reset();
  state.resumable_code = Ref();
}

PyObject* reports(const FunctionState& state) {
  Ref list = Ref::steal(PyList_New(0));
  bool done = bool(list);
  auto add = [&](const Entry& entry) {
    Ref item = done ? Ref::steal(report_of(entry)) : Ref();
    done = item && PyList_Append(list.get(), item.get()) == 0;
  };
  for (const auto& entry : state.entries) add(*entry);
  state.segments->each(add);
  return done ? list.release() : nullptr;
}

PyObject* call_compiled(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  CompiledFunction* self = cast(object);
  FullArguments full(self, args, nargsf, kwnames);
  CallArguments call = full.get();
  if (capturing() || stance() == Stance::kForceEager) return run_original(self, call);
  if (makes_generators(self)) return make_generator(self, call);
  State& state = *self->state;
  auto* function = reinterpret_cast<PyFunctionObject*>(self->function);
  constexpr int kInlineParameters = 32;
  PyObject* inline_bound[kInlineParameters];
  std::vector<PyObject*> heap_bound;
  PyObject** bound = inline_bound;
  int count = cpython::parameter_count(reinterpret_cast<PyCodeObject*>(function->func_code));
  if (count > kInlineParameters) {
    heap_bound.resize(count);
    bound = heap_bound.data();
  }
  std::vector<Ref> keep;
  if (!cpython::bind_arguments(function, call.args, call.nargsf, call.kwnames, bound, keep)) {
    if (PyErr_Occurred()) return nullptr;
    return run_original(self, call);  // raises CPython's own message
  }
  constexpr size_t kInlineInputs = 24;
  c10::TensorImpl* inline_inputs[kInlineInputs];
  std::vector<c10::TensorImpl*> heap_inputs;
  std::span<c10::TensorImpl*> inputs(inline_inputs);
  if (state.most_inputs > kInlineInputs) {
    heap_inputs.resize(state.most_inputs);
    inputs = heap_inputs;
  }
  std::shared_ptr<Entry> hold;
  if (state.most_inputs <= kInlineInputs) std::fill(inputs.begin(), inputs.end(), nullptr);
  if (find_entry(state, bound, inputs, hold))
    return run_entry(self, hold, bound, call, inputs.data());
  if (PyErr_Occurred()) return nullptr;
  return compile_and_run(self, bound, call);
}

bool has_entry_for(CompiledFunction* self, PyObject* const* args, size_t count, PyObject* kwnames) {
  FullArguments full(self, args, count, kwnames);
  CallArguments call = full.get();
  auto* function = reinterpret_cast<PyFunctionObject*>(self->function);
  std::vector<PyObject*> bound(
      cpython::parameter_count(reinterpret_cast<PyCodeObject*>(function->func_code)) + 1);
  std::vector<Ref> keep;
  if (!cpython::bind_arguments(function, call.args, call.nargsf, call.kwnames, bound.data(), keep))
    return false;
  std::vector<c10::TensorImpl*> inputs(self->state->most_inputs + 1);
  std::shared_ptr<Entry> hold;
  return find_entry(*self->state, bound.data(), inputs, hold);
}

}  // namespace braze::dispatch
