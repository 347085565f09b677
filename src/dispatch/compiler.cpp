#include "dispatch/compiler.h"

#include <ATen/TracerMode.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/fork_mutex.h"
#include "base/log.h"
#include "base/options.h"
#include "capture/exit/leaks.h"
#include "cpython/text.h"
#include "dispatch/break_log.h"
#include "dispatch/fork_gate.h"
#include "dispatch/gil.h"
#include "dispatch/layouts.h"
#include "dispatch/output_states.h"
#include "dispatch/report.h"
#include "dispatch/tensors.h"
#include "passes/unsupported.h"

namespace braze::dispatch {
namespace {

using cpython::Ref;
using Clock = std::chrono::steady_clock;

thread_local bool capturing_now = false;

// Tells the user on stderr when a compile takes longer than two seconds; nothing where no thread is
// to be had.
class ProgressLine {
 public:
  explicit ProgressLine(const std::string& what) : state_(std::make_unique<State>()) {
    try {
      state_->thread = std::thread([state = state_.get(), what] { state->wait(what); });
    } catch (const std::system_error&) {
    }
  }
  ~ProgressLine() {
    if (fork_depth() != fork_depth_) {  // the thread is in the parent, and would be waited for
      (void)state_.release();
      return;
    }
    if (!state_->thread.joinable()) return;
    {
      std::lock_guard lock(state_->mutex);
      state_->finished = true;
    }
    state_->done.notify_all();
    state_->thread.join();
  }
  ProgressLine(const ProgressLine&) = delete;

 private:
  struct State {
    void wait(const std::string& what) {
      std::unique_lock lock(mutex);
      if (!done.wait_for(lock, std::chrono::seconds(2), [this] { return finished; }))
        std::fprintf(stderr, "braze: still compiling %s\n", what.c_str());
    }
    std::mutex mutex;
    std::condition_variable done;
    bool finished = false;
    std::thread thread;
  };
  std::unique_ptr<State> state_;
  const int fork_depth_ = fork_depth();
};

bool is_plain_output(const capture::Draft& draft) {
  const auto& recipe = draft.recipe;
  return draft.exit == capture::ExitKind::kReturn && recipe.actions.size() == 1 &&
         recipe.actions[0].kind == recipe::Recipe::Kind::kOutput && recipe.actions[0].index == 0;
}

// Hands the torch-level graph to the user's backend; see braze/_fx.py. `python` is a string, why,
// where the trace cannot be told in calls of torch.
bool build_python_entry(const capture::Draft& draft, const Settings& settings, Entry& entry) {
  Ref module = Ref::steal(PyImport_ImportModule("braze._fx"));
  if (!module) return false;
  Ref inputs = Ref::steal(PyList_New(0)), names = Ref::steal(PyList_New(0));
  for (size_t i = 0; i < draft.inputs.size(); ++i) {
    const auto& input = draft.inputs[i];
    if (PyList_Append(inputs.get(), input.tensor.get())) return false;
    Ref name = Ref::steal(PyUnicode_FromString(draft.graph.inputs()[i].name.c_str()));
    if (!name || PyList_Append(names.get(), name.get())) return false;
    entry.python_constants.push_back(input.source ? Ref() : input.tensor);
  }
  entry.python_outputs = draft.graph.outputs().size();
  entry.python = Ref::steal(
      PyObject_CallMethod(module.get(), "call_backend", "OOOOO", settings.custom_backend.get(),
                          draft.torch_calls.get(), inputs.get(), names.get(), draft.outputs.get()));
  return bool(entry.python);
}

// The outputs as the traced code made them.
void set_output_states(capture::Draft& draft) {
  const std::vector<graph::Value*> values = draft.graph.outputs();
  std::vector<graph::OutputRole> roles = draft.graph.output_roles();
  // Gradients stand behind the user's.
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(draft.outputs.get()); ++i)
    if (const graph::Node* node = values[i]->producer()) {
      graph::OutputState& state = roles[i].state;
      state = state_of(unwrap(PyList_GET_ITEM(draft.outputs.get(), i)));
      state.is_alias = !state.is_view && !state.is_inference &&
                       node->op().effects.aliased_argument(values[i]->result_index()) >= 0;
    }
  for (const int output : draft.joint.tangent_of)
    roles[output].state.history = graph::History::kNone;
  // What has a history of its own is no view.
  for (const int output : draft.joint.tangent_of)
    roles[output].state.is_view = roles[output].state.is_alias = false;
  for (graph::OutputRole& role : roles)
    if (role.state.history == graph::History::kUsedUp)
      role.state.is_view = role.state.is_alias = false;
  draft.graph.set_outputs(values, std::move(roles));
}

// The draft's graph is used up.
void build_plan_entry(capture::Draft& draft, const Settings& settings, Entry& entry,
                      const std::string& name) {
  std::vector<at::Tensor> constants;
  for (const auto& input : draft.inputs)
    constants.push_back(input.source ? at::Tensor() : unwrap(input.tensor.get()));
  for (size_t i = 0; i < draft.float_inputs.size(); ++i) {
    constants[draft.float_inputs[i]] = at::Tensor();
    draft.graph.set_input_kind(draft.float_inputs[i], graph::InputKind::kNumber);
    entry.floats.push_back(static_cast<int>(i));
  }
  // Numbers are in the order of inputs.
  std::ranges::sort(entry.floats, {}, [&](int number) { return draft.float_inputs[number]; });
  entry.input_writes = count_writes(draft.graph);
  set_output_states(draft);
  entry.rollback = RollbackNeeds::of(draft.graph);
  if (!draft.joint.empty()) {
    const auto nodes = static_cast<int64_t>(draft.graph.nodes().size());
    entry.training = Training::make(draft.graph, draft.joint, settings, constants, name);
    entry.report.backward_nodes = nodes - static_cast<int64_t>(draft.graph.nodes().size());
    if (settings.keep_report) {
      entry.report.kept = kept_by(draft.graph);
      entry.report.backward_peak_bytes = entry.training->backward_peak(kept_bytes(draft.graph));
    }
  }
  entry.report.is_opaque = std::ranges::any_of(
      draft.graph.nodes(), [](const auto& node) { return node->op().effects.opaque; });
  std::vector<int64_t> hints;
  for (size_t i = 0; i < draft.graph.symbols().size(); ++i)
    hints.push_back(draft.graph.arena()->symbol_expr(static_cast<int>(i))->hint);
  entry.specializations = std::make_unique<Specializations>(
      std::move(draft.graph),
      graph::DataSymbols{std::move(draft.data_symbols), std::move(draft.assertions)},
      entry.training ? with_layouts_as_they_are(settings) : settings, std::move(constants), name);
  entry.specializations->add(hints, &entry.report);
}

void log_entry(const Entry& entry, const std::string& name) {
  if (log::enabled(log::Component::kGuards)) {
    std::string text = name;
    for (const std::string& guard : entry.guards->describe(entry.names.get())) text += "\n" + guard;
    log::write(log::Component::kGuards, text);
  }
  if (entry.reason) log_break(name, *entry.reason);
  if (log::enabled(log::Component::kTiming)) {
    const Report& r = entry.report;
    char line[400];
    std::snprintf(
        line, sizeof line,
        "%s: total %.1f ms: capture %.1f (in torch %.1f; %lld bytecodes, %lld nodes, %lld "
        "guards), passes %.1f, lower %.1f, schedule %.1f, codegen %.1f, build %.1f%s",
        name.c_str(), r.total * 1e3, r.capture * 1e3, r.trace * 1e3,
        static_cast<long long>(r.bytecodes), static_cast<long long>(r.nodes),
        static_cast<long long>(r.guard_count), r.passes * 1e3, r.lower * 1e3, r.schedule_time * 1e3,
        r.codegen * 1e3, r.build * 1e3, r.from_cache ? " (plan from the cache)" : "");
    log::write(log::Component::kTiming, line);
  }
}

void place(Entry& entry, PyCodeObject* code, const capture::Options& segment) {
  entry.code = code;
  entry.offset = segment.offset;
  entry.names = capture::entry_names(code, segment);
}

// What the guards hold in place of the function: a function that is made anew for each call must
// not be kept, with its closure, by what was compiled for it.
Ref held_function(PyFunctionObject* function, const capture::Options& segment) {
  if (!segment.thrifty || !function->func_closure)
    return Ref::borrow(reinterpret_cast<PyObject*>(function));
  Ref plain = Ref::steal(PyFunction_New(function->func_code, function->func_globals));
  BRAZE_CHECK(plain, "out of memory");
  return plain;
}

// Captures with symbols where sizes vary, or with numbers if the capture gets further with those.
std::unique_ptr<capture::Draft> capture_entry(PyFunctionObject* function, PyObject* const* bound,
                                              const Settings& settings,
                                              const capture::Options& segment,
                                              capture::DynamicSizes* dynamic) {
  const CaptureStretch stretch;
  capture::Options asked = segment;
  asked.record_torch_calls = bool(settings.custom_backend);
  if (!settings.custom_backend) {
    asked.dynamic = dynamic;
    asked.capture_scalars = settings.capture_scalars;
    asked.capture_sizes = settings.capture_sizes;
  }
  auto draft = capture::capture(function, bound, asked);
  if (!draft || !asked.dynamic) return draft;
  for (const std::string& source : draft->fixed_integers) dynamic->integers[source] = std::nullopt;
  for (const std::string& source : draft->fixed_floats) dynamic->floats[source] = false;
  if (!draft->reason || !draft->had_symbols || !draft->user_error.empty()) return draft;
  asked.dynamic = nullptr;
  auto fixed = capture::capture(function, bound, asked);
  if (!fixed) return nullptr;
  const bool better = !fixed->reason || fixed->graph.nodes().size() > draft->graph.nodes().size();
  return better ? std::move(fixed) : std::move(draft);
}

// An entry that runs the original whenever the thread's torch state is `state`.
std::shared_ptr<Entry> eager_entry(PyFunctionObject* function, const guard::GlobalState& state,
                                   capture::BreakKind kind, std::string why,
                                   const capture::Options& segment) {
  auto entry = std::make_shared<Entry>();
  place(*entry, reinterpret_cast<PyCodeObject*>(function->func_code), segment);
  entry->reason = capture::BreakReason{kind, std::move(why), {}};
  entry->guards = std::make_unique<guard::GuardSet>(
      std::make_shared<guard::SourceArena>(), guard::Guards(), std::vector<const guard::Source*>(),
      held_function(function, segment).get(), state);
  return entry;
}

}  // namespace

bool capturing() { return capturing_now; }

std::string describe(PyFunctionObject* function) {
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  const char* name = cpython::utf8_of(function->func_qualname);
  const char* file = cpython::utf8_of(code->co_filename);
  const std::string path = file;
  return std::string(name) + " (" + path.substr(path.find_last_of('/') + 1) + ":" +
         std::to_string(code->co_firstlineno) + ")";
}

void report_defect(PyFunctionObject* function, const char* consequence, const std::string& why) {
  std::fprintf(stderr, "braze: internal error in %s; %s. Please report this: %s\n",
               describe(function).c_str(), consequence, why.c_str());
}

void retire(Entry& entry, PyFunctionObject* function, const std::string& why) {
  report_defect(function, "it runs in eager from now on", why);
  entry.kind = EntryKind::kEager;
  entry.exit = capture::ExitKind::kGiveUp;
  entry.reason = capture::BreakReason{capture::BreakKind::kInternal, "internal error: " + why, {}};
}

void report_unheld_guards(PyFunctionObject* function, const std::string& why) {
  if (PyThreadState_Next(PyInterpreterState_ThreadHead(PyInterpreterState_Get()))) return;
  report_defect(function, "it runs in eager", "guards do not hold right after capture: " + why);
}

std::shared_ptr<Entry> compile_entry(PyFunctionObject* function, PyObject* const* bound,
                                     const Settings& settings, const capture::Options& segment,
                                     capture::DynamicSizes* dynamic) {
  struct Capturing {
    Capturing() { capturing_now = true; }
    ~Capturing() { capturing_now = false; }
  };
  auto start = Clock::now();
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  auto entry = std::make_shared<Entry>();
  place(*entry, code, segment);
  std::string name = describe(function);
  ProgressLine progress(name);
  Capturing scope;  // until the entry is made: a user's backend may call compiled functions too
  guard::GlobalState state = guard::GlobalState::current();
  if (at::tracer::impl::is_dispatch_enabled())
    return eager_entry(function, state, capture::BreakKind::kTorchMode,
                       "torch.jit.trace records what is called", segment);
  if (state.torch_function_modes || state.torch_dispatch_modes)
    return eager_entry(function, state, capture::BreakKind::kTorchMode,
                       "a torch function or dispatch mode is active (torch.set_default_device, "
                       "`with torch.device(...)`, FakeTensorMode, ...)",
                       segment);
  if (state.saved_tensor_hooks)
    return eager_entry(function, state, capture::BreakKind::kTorchMode,
                       "hooks for saved tensors are in force (torch.utils.checkpoint, "
                       "save_on_cpu)",
                       segment);
  const capture::LeakCheck leak_check;
  std::unique_ptr<capture::Draft> draft;
  try {
    draft = capture_entry(function, bound, settings, segment, dynamic);
    if (!draft) return nullptr;
    if (!draft->user_error.empty()) {
      PyErr_SetString(PyExc_RuntimeError, draft->user_error.c_str());
      return nullptr;
    }
    entry->report.capture = seconds_since(start);
    entry->report.trace = draft->statistics.trace_seconds;
    entry->report.bytecodes = draft->statistics.bytecodes;
    entry->report.nodes = draft->statistics.nodes;
    entry->report.guard_count = static_cast<int64_t>(draft->guards.size());
    entry->exit = draft->exit;
    entry->only_python_follows = draft->only_python_follows;
    entry->reason = draft->reason;
    entry->leaves = std::move(draft->leaves);
    if (settings.keep_report) entry->report.graph = graph::to_string(draft->graph);
    if (log::enabled(log::Component::kGraph))
      log::write(log::Component::kGraph, name + "\n" + graph::to_string(draft->graph));
    if (draft->traced) {
      entry->input_count = draft->inputs.size();
      entry->dropped_gradients = std::move(draft->dropped_gradients);
      if (settings.custom_backend) {
        entry->kind = EntryKind::kPython;
        if (!build_python_entry(*draft, settings, *entry)) return nullptr;
        if (PyUnicode_CheckExact(entry->python.get()))
          return eager_entry(function, state, capture::BreakKind::kUnsupported,
                             cpython::utf8_of(entry->python.get()), segment);
      } else {
        entry->kind = EntryKind::kPlan;
        try {
          build_plan_entry(*draft, settings, *entry, name);
        } catch (const passes::Unsupported& reason) {  // there is no forward apart from a backward
          return eager_entry(function, state, capture::BreakKind::kAutograd, reason.what(),
                             segment);
        }
      }
      entry->single_output = entry->kind == EntryKind::kPlan && is_plain_output(*draft);
    }
  } catch (const std::exception& error) {
    if (braze::options().strict) {
      PyErr_Format(PyExc_RuntimeError, "braze internal error while compiling %s: %s", name.c_str(),
                   error.what());
      return nullptr;
    }
    report_defect(function, "it cannot be compiled and runs in eager", error.what());
    return eager_entry(function, state, capture::BreakKind::kInternal,
                       std::string("internal error: ") + error.what(), segment);
  }
  std::vector<const guard::Source*> sources;
  if (entry->kind != EntryKind::kEager)
    for (const auto& input : draft->inputs) sources.push_back(input.source);
  entry->guards = std::make_unique<guard::GuardSet>(draft->sources, std::move(draft->guards),
                                                    sources, held_function(function, segment).get(),
                                                    state, std::move(draft->shapes));
  entry->recipe = std::move(draft->recipe);
  draft.reset();
  // A user's backend may keep what it is given.
  const std::string holders = settings.custom_backend ? "" : leak_check.leaks();
  if (!holders.empty()) {
    const std::string why = "a tensor without data, made while tracing, is held by " + holders;
    if (braze::options().strict) {
      PyErr_Format(PyExc_RuntimeError, "braze internal error in %s: %s", name.c_str(), why.c_str());
      return nullptr;
    }
    retire(*entry, function, why);
  }
  entry->report.total = seconds_since(start);
  log_entry(*entry, name);
  return entry;
}

}  // namespace braze::dispatch
