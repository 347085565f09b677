#include "cpython/ref.h"

#if PY_VERSION_HEX < 0x030C0000
#include <opcode.h>

#include "cpython/code.h"
#include "cpython/frame_layout.h"
#include "cpython/live_frame.h"

// Internal/pycore_frame.h of CPython 3.11.
struct _PyInterpreterFrame {
  PyFunctionObject* f_func;
  PyObject* f_globals;
  PyObject* f_builtins;
  PyObject* f_locals;
  PyCodeObject* f_code;
  PyFrameObject* frame_obj;
  _PyInterpreterFrame* previous;
  _Py_CODEUNIT* prev_instr;
  int stacktop;
  bool is_entry;
  char owner;
  PyObject* localsplus[1];
};

namespace braze::cpython {
namespace {

using Unit = _Py_CODEUNIT;

Unit*& unit_pointer(_PyInterpreterFrame* frame) { return frame->prev_instr; }
PyCodeObject*& code_slot(_PyInterpreterFrame* frame) { return frame->f_code; }
constexpr int kUnitsAhead = 1;  // `prev_instr` is the unit before the next one

}  // namespace
}  // namespace braze::cpython

#include "cpython/frame_same.inc"

namespace braze::cpython {

PyObject* FrameView::function() const { return reinterpret_cast<PyObject*>(frame_->f_func); }

namespace internal {

namespace {

// The evaluator starts behind `prev_instr`; when it is told to raise, at it.
void set_next_instruction(_PyInterpreterFrame* frame, PyCodeObject* code, int offset, bool raise) {
  frame->prev_instr = first_instruction(code) + offset - (raise ? 0 : 1);
}

}  // namespace

// _PyEval_Vector clears and pops the frame whatever the evaluator did.
void discard(PyThreadState*, _PyInterpreterFrame*) {}

const uint8_t kLeave = RETURN_VALUE;

// _PyEval_Vector, or the generator, clears it afterwards.
bool survives_its_end(_PyInterpreterFrame*) { return true; }

Departure::Departure(PyThreadState* thread, _PyInterpreterFrame* frame)
    : thread_(thread), frame_(frame) {}

// RETURN_VALUE leaves the frame as it is, wherever it stands.
bool Departure::has_ended(bool (*at_stop)(void* context, int offset), void* context) const {
  return !at_stop(context, current_offset(frame_));
}

void Departure::balance() const {}

void link_to_current(PyThreadState* thread, _PyInterpreterFrame* frame) {
  frame->previous = thread->cframe->current_frame;
}

_PyInterpreterFrame* caller_in_same_evaluation(PyThreadState* thread) {
  _PyInterpreterFrame* callee = thread->cframe->current_frame;
  return callee != nullptr && !callee->is_entry ? callee->previous : nullptr;
}

Aside::Aside(PyThreadState* thread, _PyInterpreterFrame* caller)
    : thread_(thread),
      caller_(caller),
      callee_(thread->cframe->current_frame),
      outer_(caller->previous) {
  thread->cframe->current_frame = outer_;
  thread->recursion_remaining += kLevels;
}

// Evaluations of the caller have linked it to others.
Aside::~Aside() {
  thread_->recursion_remaining -= kLevels;
  caller_->previous = outer_;
  thread_->cframe->current_frame = callee_;
}

}  // namespace internal

LiveFrame::Running::Running(LiveFrame& frame) : frame_(frame) {
  _PyCFrame* outer = frame.thread_->cframe;
  link_.use_tracing = outer->use_tracing;
  link_.previous = outer;
  link_.current_frame = frame.frame_;
  frame.frame_->previous = outer->current_frame;
  frame.frame_->is_entry = true;
  internal::set_current_offset(frame.frame_, frame.offset_);
  frame.thread_->cframe = &link_;
}

LiveFrame::Running::~Running() {
  link_.previous->use_tracing = link_.use_tracing;
  frame_.thread_->cframe = link_.previous;
}

bool LiveFrame::is_watched(PyThreadState* thread) { return thread->cframe->use_tracing != 0; }

}  // namespace braze::cpython
#endif
