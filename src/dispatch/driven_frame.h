// The driver of one frame (frame_driver.h says what it does): segments in frame_driver.cpp, the
// instructions between them in frame_steps.cpp.
#pragma once

#include <memory>
#include <vector>

#include "capture/policy/policy.h"
#include "cpython/live_frame.h"
#include "dispatch/frame_driver.h"

namespace braze::dispatch {

constexpr int kMaximalDepth = 100;  // of driven frames: each takes some of the C stack
extern thread_local int driven_frames;

// What drives the frames of functions that driven code calls: `how` is what their marks say.
cpython::Driver driver_for(capture::Drive how);

class FrameDriver {
 public:
  FrameDriver(DriverContext& context, PyThreadState* thread, cpython::FrameView view,
              const cpython::Suspension* suspension = nullptr,
              capture::Drive how = capture::Drive::kCapture)
      : context_(context),
        how_(how),
        frame_(thread, view, suspension),
        function_(reinterpret_cast<PyFunctionObject*>(view.function())),
        outer_(innermost_) {
    ++driven_frames;
    innermost_ = this;
  }
  ~FrameDriver() {
    --driven_frames;
    innermost_ = outer_;
  }
  FrameDriver(const FrameDriver&) = delete;

  // The frame begins with an entry that has run already, if it was traced.
  PyObject* begin_with(const std::shared_ptr<Entry>& entry, std::vector<cpython::Ref> values);
  // A generator's frame goes on from where it was resumed.
  PyObject* resume();
  // The frame goes on from where it is.
  PyObject* go_on();

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
  bool return_value(cpython::Ref value);

  bool segment();
  std::shared_ptr<Entry> find(std::vector<c10::TensorImpl*>& inputs);
  bool limit_reached() const;
  std::shared_ptr<Entry> compile(std::vector<c10::TensorImpl*>& inputs);
  std::vector<PyFunctionObject*> callers() const;
  void note_capture(Entry& entry);
  bool run(const std::shared_ptr<Entry>& entry, c10::TensorImpl* const* inputs);
  bool go_on_behind(const Entry& entry, std::vector<cpython::Ref> values);
  void apply(const recipe::Recipe& recipe, std::vector<cpython::Ref> values);
  bool walk(const std::shared_ptr<Entry>& entry);
  bool step();
  bool step_to_call();
  bool step_natively();
  bool step_into(PyObject* iterator);
  PyCodeObject* code_to_drive(PyObject* iterator) const;
  bool call(const cpython::Instruction& in, PyObject* kwnames);
  bool call_unpacked(const cpython::Instruction& in);
  PyObject* call_out(PyObject* callable, PyObject* const* args, size_t count, PyObject* kwnames);
  bool finish_call(const cpython::Instruction& in, int operands, PyObject* value);
  cpython::Ref callee_to_drive(PyObject* callable, capture::Drive* how) const;
  // Whether the next instruction leaves the frame, which CPython must do.
  bool has_to_finish() const {
    const int at = index();
    return frame_.is_at_exit() ||
           cpython::is_exit(state_->decoded.instructions[static_cast<size_t>(at)]) ||
           cpython::ends_generator_unhandled(state_->decoded, at);
  }
  int index() const { return state_->decoded.index_of_offset(frame_.offset()); }

  DriverContext& context_;
  const capture::Drive how_;
  cpython::LiveFrame frame_;
  PyFunctionObject* function_;  // held by the frame
  FrameDriver* const outer_;    // of this thread; null: none
  static thread_local FrameDriver* innermost_;
  std::shared_ptr<CodeState> state_;
  PyObject* result_ = nullptr;
  int idle_steps_ = 0, steps_ = 0;
  bool signals_checked_ = false;
  bool worked_ = false;  // a segment with tensor operations has run
};

}  // namespace braze::dispatch
