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

constexpr char kOwnedByGenerator = 1;

_Py_CODEUNIT* first_instruction(PyCodeObject* code) {
  return reinterpret_cast<_Py_CODEUNIT*>(code->co_code_adaptive);
}

}  // namespace

PyCodeObject* FrameView::code() const { return frame_->f_code; }
PyObject* FrameView::function() const { return reinterpret_cast<PyObject*>(frame_->f_func); }
PyObject* FrameView::globals() const { return frame_->f_globals; }
PyObject* FrameView::builtins() const { return frame_->f_builtins; }
PyObject* FrameView::names() const { return frame_->f_locals; }
bool FrameView::is_generator() const { return frame_->owner == kOwnedByGenerator; }

std::span<PyObject* const> FrameView::locals() const {
  return {frame_->localsplus, static_cast<size_t>(code()->co_nlocalsplus)};
}

std::span<PyObject* const> FrameView::stack() const {
  const int locals = code()->co_nlocalsplus;
  return {frame_->localsplus + locals, static_cast<size_t>(frame_->stacktop - locals)};
}

int FrameView::offset() const {
  return static_cast<int>(frame_->prev_instr + 1 - first_instruction(code()));
}

namespace internal {

namespace {

// The evaluator starts behind `prev_instr`; when it is told to raise, at it.
void set_next_instruction(_PyInterpreterFrame* frame, PyCodeObject* code, int offset, bool raise) {
  frame->prev_instr = first_instruction(code) + offset - (raise ? 0 : 1);
}

}  // namespace

std::vector<Ref> set_state(_PyInterpreterFrame* frame, FrameState&& state) {
  std::vector<Ref> former;
  former.reserve(frame->stacktop);
  for (int i = 0; i < frame->stacktop; ++i) former.push_back(Ref::steal(frame->localsplus[i]));
  PyCodeObject* code = FrameView(frame).code();
  PyObject** slot = frame->localsplus;
  for (Ref& value : state.locals) *slot++ = value.release();
  for (Ref& value : state.stack) *slot++ = value.release();
  frame->stacktop = static_cast<int>(slot - frame->localsplus);
  set_next_instruction(frame, code, state.offset, state.raise);
  return former;
}

// _PyEval_Vector clears and pops the frame whatever the evaluator did.
void discard(PyThreadState*, _PyInterpreterFrame*) {}

// --- Of a frame that is carried out piece by piece

const uint8_t kLeave = RETURN_VALUE;

PyObject** slots(_PyInterpreterFrame* frame) { return frame->localsplus; }
int slot_count(_PyInterpreterFrame* frame) { return frame->stacktop; }
void set_slot_count(_PyInterpreterFrame* frame, int count) { frame->stacktop = count; }

int current_offset(_PyInterpreterFrame* frame) {
  return static_cast<int>(frame->prev_instr - first_instruction(FrameView(frame).code()));
}
void set_current_offset(_PyInterpreterFrame* frame, int offset) {
  frame->prev_instr = first_instruction(FrameView(frame).code()) + offset;
}

PyCodeObject* exchange_code(_PyInterpreterFrame* frame, PyCodeObject* code) {
  const int offset = current_offset(frame);
  PyCodeObject* former = std::exchange(frame->f_code, code);
  set_current_offset(frame, offset);
  return former;
}

void set_next_offset(_PyInterpreterFrame* frame, int offset, bool raise) {
  set_next_instruction(frame, FrameView(frame).code(), offset, raise);
}

// _PyEval_Vector, or the generator, clears it afterwards.
bool survives_its_end(_PyInterpreterFrame*) { return true; }

Departure::Departure(PyThreadState* thread, _PyInterpreterFrame* frame)
    : thread_(thread), frame_(frame) {}

// RETURN_VALUE leaves the frame as it is, wherever it stands.
bool Departure::has_ended(bool (*at_stop)(void* context, int offset), void* context) const {
  return !at_stop(context, current_offset(frame_));
}

void Departure::balance() const {}

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
