#include "dispatch/frame_driver.h"

#include <mutex>
#include <utility>

#include "base/log.h"
#include "cpython/exception.h"
#include "dispatch/compile_mutex.h"
#include "dispatch/compiler.h"
#include "dispatch/controls.h"
#include "dispatch/driven_frame.h"
#include "dispatch/recompiles.h"

namespace braze::dispatch {

using capture::Drive;
using capture::ExitKind;
using cpython::FrameView;
using cpython::LiveFrame;
using cpython::Ref;

thread_local int driven_frames = 0;
thread_local FrameDriver* FrameDriver::innermost_ = nullptr;

namespace {

constexpr int kStepsBetweenSwitches = 64;

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

}  // namespace

cpython::Driver driver_for(Drive how) {
  if (how == Drive::kSteps) return drive_as<Drive::kSteps>;
  return how == Drive::kStepsInside ? drive_as<Drive::kStepsInside> : drive_as<Drive::kCapture>;
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
    report_defect(function_, "CPython runs it from now on", error.what());
    if (PyErr_Occurred())
      finish_raising();
    else
      finish();
  }
  return result_;
}

PyObject* FrameDriver::begin_with(const std::shared_ptr<Entry>& entry, std::vector<Ref> values) {
  return guarded([&] {
    const bool eager = entry->kind == EntryKind::kEager;
    if (!(eager ? walk(entry) : go_on_behind(*entry, std::move(values)))) go_through_segments();
  });
}

PyObject* FrameDriver::resume() {
  return guarded([&] {
    if (driven_frames > kMaximalDepth || state_->left_to_cpython) {
      result_ = frame_.leave_to_cpython();
      return;
    }
    // Its RESUME checks for signals, if anything does: a `yield from` leaves that to its delegate.
    signals_checked_ = true;
    go_through_segments();
    state_->idle_resumptions = worked_ ? 0 : state_->idle_resumptions + 1;
    if (state_->idle_resumptions > kMaximalIdleResumptions) state_->left_to_cpython = true;
  });
}

PyObject* FrameDriver::go_on() {
  return guarded([&] { go_through_segments(); });
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

std::vector<PyFunctionObject*> FrameDriver::callers() const {
  std::vector<PyFunctionObject*> functions;
  for (const FrameDriver* driver = outer_; driver; driver = driver->outer_)
    functions.push_back(driver->function_);
  return functions;
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
      {.offset = offset, .stack_size = frame_.stack_size(), .thrifty = true, .callers = callers()},
      &dynamic);
  lock.unlock();
  if (!entry) return nullptr;
  note_capture(*entry);
  publish(state_->entries[offset], entry);
  inputs.assign(entry->input_count + 1, nullptr);
  if (entry->guards->check(frame_.slots(), inputs.data(), function)) return entry;
  if (PyErr_Occurred()) return nullptr;
  report_unheld_guards(function_,
                       entry->guards->why_not(frame_.slots(), entry->names.get(), function));
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
  if (outcome == Entry::Outcome::kBroken || outcome == Entry::Outcome::kBrokenHalfway)
    retire(*entry, function_, why);
  if (PyErr_Occurred()) return finish_raising();
  if (outcome != Entry::Outcome::kDone) return finish();
  if (entry->exit == ExitKind::kReturn) return return_value(Ref::steal(result));
  return go_on_behind(*entry, std::move(values));
}

bool FrameDriver::go_on_behind(const Entry& entry, std::vector<Ref> values) {
  apply(entry.recipe, std::move(values));
  if (!state_->readable) return finish();
  return entry.only_python_follows ? finish() : step();
}

// Puts the frame into the state at a segment's exit.
void FrameDriver::apply(const recipe::Recipe& recipe, std::vector<Ref> values) {
  auto at = [&](int action) { return action < 0 ? Ref() : values[static_cast<size_t>(action)]; };
  std::vector<Ref> former, stack;
  PyObject** slots = frame_.slots();
  for (size_t i = 0; i < recipe.locals.size(); ++i)
    if (int action = recipe.locals[i]; action != recipe::Recipe::kUnchanged)
      former.push_back(Ref::steal(std::exchange(slots[i], at(action).release())));
  for (int action : recipe.stack) stack.push_back(at(action));
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
