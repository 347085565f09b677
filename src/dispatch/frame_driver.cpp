#include "dispatch/frame_driver.h"

#include <array>
#include <cstdio>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "capture/policy/policy.h"
#include "cpython/exception.h"
#include "dispatch/compile_mutex.h"
#include "dispatch/compiler.h"
#include "dispatch/controls.h"
#include "dispatch/recompiles.h"

namespace braze::dispatch {

using capture::Drive;
using capture::ExitKind;
using cpython::FrameView;
using cpython::Instruction;
using cpython::LiveFrame;
using cpython::Opcode;
using cpython::Ref;

namespace {

constexpr int kMaximalDepth = 100;  // of driven frames: each takes some of the C stack
constexpr int kStepsBetweenSwitches = 64;
thread_local int driven_frames = 0;

class FrameDriver {
 public:
  FrameDriver(DriverContext& context, PyThreadState* thread, FrameView view,
              const cpython::Suspension* suspension = nullptr, Drive how = Drive::kCapture)
      : context_(context),
        how_(how),
        frame_(thread, view, suspension),
        function_(reinterpret_cast<PyFunctionObject*>(view.function())) {
    ++driven_frames;
  }
  ~FrameDriver() { --driven_frames; }
  FrameDriver(const FrameDriver&) = delete;

  // The frame begins with an entry that has run already, if it was traced.
  PyObject* begin_with(const std::shared_ptr<Entry>& entry, std::vector<Ref> values) {
    return guarded([&] {
      const bool eager = entry->kind == EntryKind::kEager;
      if (!(eager ? walk(entry) : go_on_behind(*entry, std::move(values)))) go_through_segments();
    });
  }

  // A generator's frame goes on from where it was resumed.
  PyObject* resume() {
    return guarded([&] {
      if (driven_frames > kMaximalDepth || state_->left_to_cpython) {
        result_ = frame_.leave_to_cpython();
        return;
      }
      signals_checked_ =
          true;  // by its RESUME, if at all: a `yield from` leaves them to its delegate
      go_through_segments();
      state_->idle_resumptions = worked_ ? 0 : state_->idle_resumptions + 1;
      if (state_->idle_resumptions > kMaximalIdleResumptions) state_->left_to_cpython = true;
    });
  }

  // The frame goes on from where it is.
  PyObject* go_on() {
    return guarded([&] { go_through_segments(); });
  }

 private:
  void go_through_segments() {
    while (!segment()) {
    }
  }
  template <class Run>
  PyObject* guarded(Run&& run);

  // The functions below that return a bool: true when the frame has been left; then `result_` is
  // what it gave.
  bool finish() {
    if (state_ && state_->left_to_cpython) frame_.stay_with_cpython();
    result_ = frame_.finish();
    return true;
  }
  bool finish_raising() {
    result_ = frame_.finish_raising();
    return true;
  }
  bool return_value(Ref value);

  bool segment();
  std::shared_ptr<Entry> find(std::vector<c10::TensorImpl*>& inputs);
  bool limit_reached() const;
  std::shared_ptr<Entry> compile(std::vector<c10::TensorImpl*>& inputs);
  void note_capture(Entry& entry);
  bool run(const std::shared_ptr<Entry>& entry, c10::TensorImpl* const* inputs);
  bool go_on_behind(const Entry& entry, std::vector<Ref> values);
  void apply(const capture::Recipe& recipe, std::vector<Ref> values);
  bool walk(const std::shared_ptr<Entry>& entry);
  bool step();
  bool step_to_call();
  bool step_natively();
  bool step_into(PyObject* iterator);
  PyCodeObject* code_to_drive(PyObject* iterator) const;
  bool call(const Instruction& in, PyObject* kwnames);
  bool call_unpacked(const Instruction& in);
  PyObject* call_out(PyObject* callable, PyObject* const* args, size_t count, PyObject* kwnames);
  bool finish_call(const Instruction& in, int operands, PyObject* value);
  Ref callee_to_drive(PyObject* callable, Drive* how) const;
  // CPython must carry out the next instruction, and the frame be left with it.
  bool has_to_finish() const {
    const int at = index();
    return frame_.is_at_exit() ||
           cpython::is_exit(state_->decoded.instructions[static_cast<size_t>(at)]) ||
           cpython::ends_generator_unhandled(state_->decoded, at);
  }
  int index() const { return state_->decoded.index_of_offset(frame_.offset()); }

  DriverContext& context_;
  const Drive how_;
  LiveFrame frame_;
  PyFunctionObject* function_;  // held by the frame
  std::shared_ptr<CodeState> state_;
  PyObject* result_ = nullptr;
  int idle_steps_ = 0, steps_ = 0;
  bool signals_checked_ = false;
  bool worked_ = false;  // a segment with tensor operations has run
};

PyObject* drive_resumed(void* data, PyThreadState* thread, FrameView view,
                        const cpython::Suspension& suspension) {
  auto* generators = static_cast<GeneratorContext*>(data);
  DriverContext context{generators->settings, *generators->segments};
  FrameDriver driver(context, thread, view, &suspension);
  return driver.resume();
}

template <Drive how>
PyObject* drive_as(void* context, PyThreadState* thread, FrameView view) {
  FrameDriver driver(*static_cast<DriverContext*>(context), thread, view, nullptr, how);
  return driver.go_on();
}
constexpr cpython::Driver drive = drive_as<Drive::kCapture>;

cpython::Driver driver_for(Drive how) {
  if (how == Drive::kSteps) return drive_as<Drive::kSteps>;
  return how == Drive::kStepsInside ? drive_as<Drive::kStepsInside> : drive;
}

// A defect of ours must not fly through the interpreter, which knows no C++ exceptions. What can
// fail by itself (guards, compiling, copies of code) does so while the frame is as it was.
template <class Run>
PyObject* FrameDriver::guarded(Run&& run) {
  try {
    state_ = context_.segments.of(frame_.code());
    run();
  } catch (const std::exception& error) {
    if (state_) state_->left_to_cpython = true;
    std::fprintf(stderr,
                 "braze: internal error in %s; CPython runs it from now on. Please report this: "
                 "%s\n",
                 describe(function_).c_str(), error.what());
    if (PyErr_Occurred())
      finish_raising();
    else
      finish();
  }
  return result_;
}

bool FrameDriver::return_value(Ref value) {
  bool pushed;
  const int offset = state_->return_offset(value.get(), &pushed);
  BRAZE_CHECK(offset >= 0, "a function that returns nowhere");
  std::vector<Ref> stack;
  if (pushed) stack.push_back(std::move(value));
  frame_.set_offset(offset);
  std::vector<Ref> former = frame_.replace_stack(std::move(stack));
  former.clear();
  return finish();
}

// One segment, and the instruction that it breaks at.
bool FrameDriver::segment() {
  if (!state_->readable || has_to_finish()) return finish();
  const auto own_code = reinterpret_cast<PyObject*>(frame_.code());
  if (LiveFrame::is_watched(frame_.thread()) || capturing() || state_->left_to_cpython ||
      idle_steps_ > kMaximalIdleSteps || function_->func_code != own_code ||
      stance() == Stance::kForceEager)
    return finish();
  if (++steps_ % kStepsBetweenSwitches == 0) {
    Py_BEGIN_ALLOW_THREADS  // others may want the interpreter
        Py_END_ALLOW_THREADS
  }
  if (!std::exchange(signals_checked_, false) && PyErr_CheckSignals() < 0) return finish_raising();
  if (how_ != Drive::kCapture) return step_to_call();
  std::vector<c10::TensorImpl*> inputs;
  std::shared_ptr<Entry> entry = find(inputs);
  if (!entry && !PyErr_Occurred()) {
    if (limit_reached()) {
      // CPython takes the path that was captured last, where it leads to a break.
      entry = state_->entries[frame_.offset()].back();
      return entry->exit == ExitKind::kBreak ? walk(entry) : finish();
    }
    entry = compile(inputs);
  }
  if (PyErr_Occurred()) return finish_raising();
  return entry ? run(entry, inputs.data()) : finish();
}

std::shared_ptr<Entry> FrameDriver::find(std::vector<c10::TensorImpl*>& inputs) {
  std::shared_ptr<Entry> found;
  find_newest_first(state_->entries[frame_.offset()], found, [&](Entry& entry) {
    inputs.assign(entry.input_count + 1, nullptr);
    return entry.guards->check(frame_.slots(), inputs.data(),
                               reinterpret_cast<PyObject*>(function_));
  });
  return found;
}

bool FrameDriver::limit_reached() const {
  auto known = state_->entries.find(frame_.offset());
  return known != state_->entries.end() &&
         static_cast<int64_t>(known->second.size()) >= context_.settings.recompile_limit;
}

std::shared_ptr<Entry> FrameDriver::compile(std::vector<c10::TensorImpl*>& inputs) {
  const int offset = frame_.offset();
  auto* function = reinterpret_cast<PyObject*>(function_);
  auto& known = state_->entries[offset];
  if (stance() == Stance::kEagerOnRecompile) return nullptr;
  if (stance() == Stance::kFailOnRecompile) {
    PyErr_Format(PyExc_RuntimeError,
                 "%s, behind a graph break, would be compiled, which the stance "
                 "'fail_on_recompile' forbids [E111]",
                 describe(function_).c_str());
    return nullptr;
  }
  std::unique_lock lock(compile_mutex(), std::try_to_lock);
  if (!lock) return nullptr;
  if (std::shared_ptr<Entry> made = find(inputs)) return made;  // meanwhile
  if (!known.empty() && log::enabled(log::Component::kRecompiles))
    log::write(
        log::Component::kRecompiles,
        describe(function_) + " at line " + std::to_string(state_->decoded.line(index())) + ": " +
            known.back()->guards->why_not(frame_.slots(), known.back()->names.get(), function));
  capture::DynamicSizes& dynamic = state_->dynamic[offset];
  dynamic.mode = context_.settings.dynamic;
  if (!known.empty()) learn_what_varies(dynamic, known, frame_.slots(), known.back()->names.get());
  std::shared_ptr<Entry> entry = compile_entry(
      function_, frame_.slots(), context_.settings,
      {.offset = offset, .stack_size = frame_.stack_size(), .thrifty = true}, &dynamic);
  lock.unlock();
  if (!entry) return nullptr;
  note_capture(*entry);
  publish(state_->entries[offset], entry);
  inputs.assign(entry->input_count + 1, nullptr);
  if (entry->guards->check(frame_.slots(), inputs.data(), function)) return entry;
  if (PyErr_Occurred()) return nullptr;
  std::fprintf(stderr,
               "braze: guards of a segment of %s do not hold right after capture (%s); it runs in "
               "eager. Please report this.\n",
               describe(function_).c_str(),
               entry->guards->why_not(frame_.slots(), entry->names.get(), function).c_str());
  return nullptr;
}

void FrameDriver::note_capture(Entry& entry) {
  ++state_->captured;
  if (entry.kind != EntryKind::kEager) ++state_->with_graph;
  if (state_->captured < kUselessSegments || state_->with_graph > 0) return;
  state_->left_to_cpython = true;
  entry.exit = ExitKind::kGiveUp;
  entry.reason = capture::BreakReason{
      capture::BreakKind::kUnsupported,
      std::to_string(kUselessSegments) +
          " segments of this function were captured and none has a tensor operation: from here on "
          "CPython runs it",
      {}};
}

bool FrameDriver::run(const std::shared_ptr<Entry>& entry, c10::TensorImpl* const* inputs) {
  if (entry->kind == EntryKind::kEager) {
    ++entry->calls;
    return entry->exit == ExitKind::kBreak ? walk(entry) : finish();
  }
  idle_steps_ = 0;
  worked_ = true;
  PyObject* result = nullptr;
  std::vector<Ref> values;
  std::string why;
  Entry::Outcome outcome;
  {
    LiveFrame::Running running(frame_);  // deferred calls ask who is calling
    outcome = entry->run(function_, frame_.slots(), inputs, &result, values, &why);
  }
  if (outcome == Entry::Outcome::kBroken) {
    std::fprintf(stderr,
                 "braze: internal error in compiled %s; it runs in eager from now on. "
                 "Please report this: %s\n",
                 describe(function_).c_str(), why.c_str());
    entry->kind = EntryKind::kEager;
    entry->exit = ExitKind::kGiveUp;
    entry->reason =
        capture::BreakReason{capture::BreakKind::kInternal, "internal error: " + why, {}};
  }
  if (outcome != Entry::Outcome::kDone) return finish();
  if (PyErr_Occurred()) return finish_raising();
  if (entry->exit == ExitKind::kReturn) return return_value(Ref::steal(result));
  return go_on_behind(*entry, std::move(values));
}

bool FrameDriver::go_on_behind(const Entry& entry, std::vector<Ref> values) {
  apply(entry.recipe, std::move(values));
  if (!state_->readable) return finish();
  return entry.only_python_follows ? finish() : step();
}

// Puts the frame into the state at a segment's exit.
void FrameDriver::apply(const capture::Recipe& recipe, std::vector<Ref> values) {
  auto at = [&](int step) { return step < 0 ? Ref() : values[static_cast<size_t>(step)]; };
  std::vector<Ref> former, stack;
  PyObject** slots = frame_.slots();
  for (size_t i = 0; i < recipe.locals.size(); ++i)
    if (int step = recipe.locals[i]; step != capture::Recipe::kUnchanged)
      former.push_back(Ref::steal(std::exchange(slots[i], at(step).release())));
  for (int step : recipe.stack) stack.push_back(at(step));
  frame_.set_offset(recipe.offset);
  std::vector<Ref> former_stack = frame_.replace_stack(std::move(stack));
  // Only now, with the frame as it is to be, may what was in it go, and run finalisers.
  values.clear();
}

// CPython takes the frame from the beginning of the segment to behind its break, or to where it
// leaves the path that was evaluated.
bool FrameDriver::walk(const std::shared_ptr<Entry>& entry) {
  if (!state_->readable) return finish();
  ++idle_steps_;
  if (const cpython::StopCode* path = entry->path_to_break()) {
    if (!frame_.run_until(*path, false, &result_)) return true;
    if (frame_.offset() != entry->recipe.offset) return false;
  }
  return step();
}

// Carries out all instructions before the next call for real, or that call.
bool FrameDriver::step_to_call() {
  const cpython::StopCode* calls = state_->call_code();
  if (!calls) return finish();
  if (calls->at(frame_.offset())) return step();
  return !frame_.run_until(*calls, false, &result_);
}

// Carries out the next instruction for real.
bool FrameDriver::step() {
  if (has_to_finish()) return finish();
  const auto& instructions = state_->decoded.instructions;
  auto at = static_cast<size_t>(index());
  PyObject* kwnames = nullptr;
  if (instructions[at].op == Opcode::kKwNames)
    kwnames = PyTuple_GET_ITEM(frame_.code()->co_consts, instructions[at++].arg);
  const Instruction& in = instructions[at];
  if (in.op == Opcode::kCall || in.op == Opcode::kCallKw) return call(in, kwnames);
  if (in.op == Opcode::kCallFunctionEx) return call_unpacked(in);
  PyObject** end = frame_.slots() + frame_.code()->co_nlocalsplus + frame_.stack_size();
  if (in.op == Opcode::kForIter) return step_into(end[-1]);
  if (in.op == Opcode::kSend) return step_into(end[-2]);
  return step_natively();
}

// The same where the instruction resumes `iterator`, whose frame is driven too if it is a
// generator or coroutine.
bool FrameDriver::step_into(PyObject* iterator) {
  PyCodeObject* code = code_to_drive(iterator);
  if (!code) return step_natively();
  cpython::Resumption resumption(code, drive, &context_);
  return step_natively();
}

PyCodeObject* FrameDriver::code_to_drive(PyObject* iterator) const {
  const bool coroutine = PyCoro_CheckExact(iterator);
  if ((!coroutine && !PyGen_CheckExact(iterator)) || driven_frames >= kMaximalDepth) return nullptr;
  Ref frame = Ref::steal(PyObject_GetAttrString(iterator, coroutine ? "cr_frame" : "gi_frame"));
  if (!frame || !PyFrame_Check(frame.get())) {
    PyErr_Clear();
    return nullptr;
  }
  auto* python_frame = reinterpret_cast<PyFrameObject*>(frame.get());
  Ref globals = Ref::steal(PyFrame_GetGlobals(python_frame));
  Ref code = Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(python_frame)));
  if (!capture::may_drive_code(globals.get())) return nullptr;
  auto* wanted = reinterpret_cast<PyCodeObject*>(code.get());  // the generator keeps it
  if (cpython::comes_to_driver(wanted)) return nullptr;
  auto known = context_.segments.codes.find(wanted);
  const bool left = known != context_.segments.codes.end() && known->second->left_to_cpython;
  return left ? nullptr : wanted;
}

bool FrameDriver::step_natively() {
  const cpython::StopCode* stops = state_->step_code(frame_.offset());
  if (!stops) return finish();
  return !frame_.run_until(*stops, false, &result_);
}

// (method self | NULL callable, args… [names] -- result); 3.13: (callable NULL | method self, …)
bool FrameDriver::call(const Instruction& in, PyObject* kwnames) {
  const int names = in.op == Opcode::kCallKw ? 1 : 0;
  const int operands = in.arg + 2 + names;
  PyObject** base = frame_.slots() + frame_.code()->co_nlocalsplus + frame_.stack_size() - operands;
  if (names) kwnames = base[operands - 1];
  const bool has_self = base[0] && base[1];
  PyObject* callable = base[0] ? base[0] : base[1];
  frame_.set_offset(in.offset);
  const int given = in.arg + (has_self ? 1 : 0);
  const auto named = kwnames ? static_cast<int>(PyTuple_GET_SIZE(kwnames)) : 0;
  PyObject* value =
      call_out(callable, base + (has_self ? 1 : 2), static_cast<size_t>(given - named), kwnames);
  return finish_call(in, operands, value);
}

// (NULL callable args [kwargs] -- result); 3.13: (callable NULL args [kwargs])
bool FrameDriver::call_unpacked(const Instruction& in) {
  const int operands = 3 + (in.arg & 1);
  PyObject** base = frame_.slots() + frame_.code()->co_nlocalsplus + frame_.stack_size() - operands;
  PyObject* callable = base[0] ? base[0] : base[1];
  PyObject* args = base[2];
  PyObject* kwargs = in.arg & 1 ? base[3] : nullptr;
  Drive how;
  if (!PyTuple_CheckExact(args) || (kwargs && !PyDict_CheckExact(kwargs)) ||
      !callee_to_drive(callable, &how))
    return step_natively();
  std::vector<PyObject*> values{nullptr};  // room for a method's self
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
    values.push_back(PyTuple_GET_ITEM(args, i));
  const size_t positional = values.size() - 1;
  Ref names;
  std::vector<Ref> held;  // the callee may change the dict
  if (kwargs && PyDict_GET_SIZE(kwargs) > 0) {
    names = Ref::steal(PyTuple_New(PyDict_GET_SIZE(kwargs)));
    if (!names) return finish_raising();
    Py_ssize_t position = 0, count = 0;
    PyObject *key, *value;
    while (PyDict_Next(kwargs, &position, &key, &value)) {
      if (!PyUnicode_Check(key)) return step_natively();
      PyTuple_SET_ITEM(names.get(), count++, Py_NewRef(key));
      values.push_back(value);
      held.push_back(Ref::borrow(value));
    }
  }
  PyObject* value = call_out(callable, values.data() + 1, positional, names.get());
  return finish_call(in, operands, value);
}

PyObject* FrameDriver::call_out(PyObject* callable, PyObject* const* args, size_t count,
                                PyObject* kwnames) {
  LiveFrame::Running running(frame_);
  if (Py_EnterRecursiveCall(" while calling a Python object")) return nullptr;
  PyObject* value;
  Drive how;
  if (Ref callee = callee_to_drive(callable, &how))
    value = cpython::call_driven(callee.get(), args, count, kwnames, driver_for(how), &context_);
  else
    value = PyObject_Vectorcall(callable, args, count, kwnames);
  Py_LeaveRecursiveCall();
  return value;
}

// The frame is at the call `in`, whose operands are still on the stack.
bool FrameDriver::finish_call(const Instruction& in, int operands, PyObject* value) {
  frame_.set_offset(in.offset);
  const cpython::StopCode* stops = state_->step_code(in.offset);
  if (!value) return stops ? !frame_.run_until(*stops, true, &result_) : finish_raising();
  std::vector<Ref> done = frame_.pop(operands);
  frame_.push(Ref::steal(value));
  int next = state_->decoded.index_of_offset(in.offset) + 1;
  frame_.set_offset(state_->decoded.instructions[static_cast<size_t>(next)].offset);
  return false;
}

// The function or method behind `callable` if its frame is to be driven too; else empty.
Ref FrameDriver::callee_to_drive(PyObject* callable, Drive* how) const {
  if (driven_frames >= kMaximalDepth || LiveFrame::is_watched(frame_.thread())) return {};
  Ref callee = Ref::borrow(callable);
  if (!PyFunction_Check(callable) && !PyMethod_Check(callable)) {
    // An instance whose class says in Python how it is called.
    if (Ref method = capture::python_call_method(callable))
      callee = Ref::steal(PyMethod_New(method.get(), callable));
    else
      return {};
  }
  if (!callee || !cpython::can_be_driven(callee.get())) return {};
  auto* function = reinterpret_cast<PyFunctionObject*>(
      PyMethod_Check(callee.get()) ? PyMethod_GET_FUNCTION(callee.get()) : callee.get());
  *how = capture::how_to_drive(function);
  if (*how == Drive::kNot) return {};
  if (how_ == Drive::kStepsInside && *how == Drive::kCapture) *how = Drive::kSteps;
  auto known = context_.segments.codes.find(reinterpret_cast<PyCodeObject*>(function->func_code));
  if (known != context_.segments.codes.end() && known->second->left_to_cpython) return {};
  return callee;
}

}  // namespace

PyObject* call_with_breaks(DriverContext& context, PyFunctionObject* function,
                           const CallArguments& call, const std::shared_ptr<Entry>& entry,
                           std::vector<Ref> values) {
  struct Begin {
    DriverContext& context;
    const std::shared_ptr<Entry>& entry;
    std::vector<Ref> values;
  } begin{context, entry, std::move(values)};
  return cpython::call_driven(
      reinterpret_cast<PyObject*>(function), call.args, call.nargsf, call.kwnames,
      [](void* data, PyThreadState* thread, FrameView view) {
        auto* begin = static_cast<Begin*>(data);
        FrameDriver driver(begin->context, thread, view);
        return driver.begin_with(begin->entry, std::move(begin->values));
      },
      &begin);
}

std::unique_ptr<cpython::Resumable> make_resumable(PyCodeObject* code,
                                                   std::shared_ptr<GeneratorContext> context) {
  return std::make_unique<cpython::Resumable>(code, drive_resumed, std::move(context));
}

}  // namespace braze::dispatch
