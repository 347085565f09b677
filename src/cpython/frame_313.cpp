#include "cpython/ref.h"

#if PY_VERSION_HEX >= 0x030D0000
#include <opcode.h>

#include "cpython/code.h"
#include "cpython/frame_layout.h"
#include "cpython/live_frame.h"

// Internal/pycore_frame.h of CPython 3.13.
struct _PyInterpreterFrame {
  PyObject* f_executable;
  _PyInterpreterFrame* previous;
  PyObject* f_funcobj;
  PyObject* f_globals;
  PyObject* f_builtins;
  PyObject* f_locals;
  PyFrameObject* frame_obj;
  uint16_t* instr_ptr;
  int stacktop;
  uint16_t return_offset;
  char owner;
  PyObject* localsplus[1];
};

extern "C" void _PyEval_FrameClearAndPop(PyThreadState* thread, _PyInterpreterFrame* frame);

namespace braze::cpython {
namespace {

using Unit = uint16_t;

Unit*& unit_pointer(_PyInterpreterFrame* frame) { return frame->instr_ptr; }
PyObject*& code_slot(_PyInterpreterFrame* frame) { return frame->f_executable; }
constexpr int kUnitsAhead = 0;

}  // namespace
}  // namespace braze::cpython

#include "cpython/frame_same.inc"

namespace braze::cpython {

PyObject* FrameView::function() const { return frame_->f_funcobj; }

namespace internal {

namespace {

// A frame that is told to raise looks for the handler of the code unit before `instr_ptr`, but
// reports the line of `instr_ptr`. Where both units have the same handler the line is right too.
void set_next_instruction(_PyInterpreterFrame* frame, PyCodeObject* code, int offset, bool raise) {
  uint16_t* next = first_instruction(code) + offset;
  if (raise) {
    const DecodedCode& decoded = decode(code);
    const int index = decoded.index_of_offset(offset);
    const bool same = index > 0 && decoded.handler(index) == decoded.handler(index - 1);
    if (!same) ++next;
  }
  frame->instr_ptr = next;
}

}  // namespace

void discard(PyThreadState* thread, _PyInterpreterFrame* frame) {
  _PyEval_FrameClearAndPop(thread, frame);
}

void link_to_current(PyThreadState* thread, _PyInterpreterFrame* frame) {
  frame->previous = thread->current_frame;
}

_PyInterpreterFrame* caller_in_same_evaluation(PyThreadState* thread) {
  _PyInterpreterFrame* callee = thread->current_frame;
  _PyInterpreterFrame* caller = callee != nullptr ? callee->previous : nullptr;
  constexpr char kOwnedByCStack = 3;  // stands for the C code that has started an evaluation
  return caller != nullptr && caller->owner != kOwnedByCStack ? caller : nullptr;
}

Aside::Aside(PyThreadState* thread, _PyInterpreterFrame* caller)
    : thread_(thread), caller_(caller), callee_(thread->current_frame), outer_(caller->previous) {
  thread->current_frame = outer_;
  thread->py_recursion_remaining += kLevels;
}

Aside::~Aside() {
  thread_->py_recursion_remaining -= kLevels;
  caller_->previous = outer_;
  caller_->return_offset = 0;
  thread_->current_frame = callee_;
}

}  // namespace internal

LiveFrame::Running::Running(LiveFrame& frame)
    : frame_(frame), outer_(frame.thread_->current_frame) {
  frame.frame_->previous = outer_;
  internal::set_current_offset(frame.frame_, frame.offset_);
  frame.thread_->current_frame = frame.frame_;
  --frame.thread_->py_recursion_remaining;
}

LiveFrame::Running::~Running() {
  ++frame_.thread_->py_recursion_remaining;
  frame_.thread_->current_frame = outer_;
}

}  // namespace braze::cpython
#endif
