#include "cpython/ref.h"

#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000
#include <opcode.h>

#include "cpython/code.h"
#include "cpython/frame_layout.h"
#include "cpython/live_frame.h"

// Internal/pycore_frame.h of CPython 3.12.
struct _PyInterpreterFrame {
  PyCodeObject* f_code;
  _PyInterpreterFrame* previous;
  PyObject* f_funcobj;
  PyObject* f_globals;
  PyObject* f_builtins;
  PyObject* f_locals;
  PyFrameObject* frame_obj;
  _Py_CODEUNIT* prev_instr;
  int stacktop;
  uint16_t return_offset;
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

PyObject* FrameView::function() const { return frame_->f_funcobj; }

namespace internal {

namespace {

// The evaluator starts behind `prev_instr`; when it is told to raise, at it.
void set_next_instruction(_PyInterpreterFrame* frame, PyCodeObject* code, int offset, bool raise) {
  frame->prev_instr = first_instruction(code) + offset - (raise ? 0 : 1);
}

// What _PyThreadState_PopFrame does, which is not exported.
void pop_frame(PyThreadState* thread, _PyInterpreterFrame* frame) {
  auto base = reinterpret_cast<PyObject**>(frame);
  _PyStackChunk* chunk = thread->datastack_chunk;
  if (base != &chunk->data[0]) {
    thread->datastack_top = base;
    return;
  }
  _PyStackChunk* previous = chunk->previous;
  thread->datastack_top = &previous->data[previous->top];
  thread->datastack_chunk = previous;
  thread->datastack_limit =
      reinterpret_cast<PyObject**>(reinterpret_cast<char*>(previous) + previous->size);
  PyObjectArenaAllocator allocator;
  PyObject_GetArenaAllocator(&allocator);
  allocator.free(allocator.ctx, chunk, chunk->size);
}

}  // namespace

void discard(PyThreadState* thread, _PyInterpreterFrame* frame) {
  // The frame never ran, so there is no frame object for it.
  const int count = std::exchange(frame->stacktop, 0);
  for (int i = 0; i < count; ++i) Py_XDECREF(frame->localsplus[i]);
  Py_XDECREF(frame->f_locals);
  Py_DECREF(frame->f_funcobj);
  Py_DECREF(frame->f_code);
  pop_frame(thread, frame);
}

void link_to_current(PyThreadState* thread, _PyInterpreterFrame* frame) {
  frame->previous = thread->cframe->current_frame;
}

_PyInterpreterFrame* caller_in_same_evaluation(PyThreadState* thread) {
  _PyInterpreterFrame* callee = thread->cframe->current_frame;
  _PyInterpreterFrame* caller = callee != nullptr ? callee->previous : nullptr;
  constexpr char kOwnedByCStack = 3;  // stands for the C code that has started an evaluation
  return caller != nullptr && caller->owner != kOwnedByCStack ? caller : nullptr;
}

Aside::Aside(PyThreadState* thread, _PyInterpreterFrame* caller)
    : thread_(thread),
      caller_(caller),
      callee_(thread->cframe->current_frame),
      outer_(caller->previous) {
  thread->cframe->current_frame = outer_;
  thread->py_recursion_remaining += kLevels;
}

// Evaluations of the caller have linked it to others.
Aside::~Aside() {
  thread_->py_recursion_remaining -= kLevels;
  caller_->previous = outer_;
  caller_->return_offset = 0;  // the gate returns to where the frame now is
  thread_->cframe->current_frame = callee_;
}

}  // namespace internal

LiveFrame::Running::Running(LiveFrame& frame) : frame_(frame) {
  _PyCFrame* outer = frame.thread_->cframe;
  link_.previous = outer;
  link_.current_frame = frame.frame_;
  frame.frame_->previous = outer->current_frame;
  internal::set_current_offset(frame.frame_, frame.offset_);
  frame.thread_->cframe = &link_;
  --frame.thread_->py_recursion_remaining;
}

LiveFrame::Running::~Running() {
  ++frame_.thread_->py_recursion_remaining;
  frame_.thread_->cframe = link_.previous;
}

}  // namespace braze::cpython
#endif
