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

constexpr char kOwnedByGenerator = 1;

_Py_CODEUNIT* first_instruction(PyCodeObject* code) {
  return reinterpret_cast<_Py_CODEUNIT*>(code->co_code_adaptive);
}

}  // namespace

PyCodeObject* FrameView::code() const { return frame_->f_code; }
PyObject* FrameView::function() const { return frame_->f_funcobj; }
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

namespace {

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

// --- Of a frame that is carried out piece by piece

const uint8_t kLeave = INTERPRETER_EXIT;

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

bool survives_its_end(_PyInterpreterFrame* frame) { return frame->owner == kOwnedByGenerator; }

Departure::Departure(PyThreadState* thread, _PyInterpreterFrame* frame)
    : thread_(thread),
      frame_(frame),
      chunk_(thread->datastack_chunk),
      top_(thread->datastack_top),
      python_recursion_(thread->py_recursion_remaining),
      c_recursion_(thread->c_recursion_remaining) {}

// A function's frame is popped at its end, a generator's is marked.
bool Departure::has_ended(bool (*)(void* context, int offset), void*) const {
  if (thread_->datastack_chunk != chunk_ || thread_->datastack_top != top_) return true;
  if (frame_->owner != kOwnedByGenerator) return false;
  constexpr int8_t kExecuting = 0;
  auto generator = reinterpret_cast<PyGenObject*>(reinterpret_cast<char*>(frame_) -
                                                  offsetof(PyGenObject, gi_iframe));
  return generator->gi_frame_state != kExecuting;
}

void Departure::balance() const {
  thread_->py_recursion_remaining = python_recursion_;
  thread_->c_recursion_remaining = c_recursion_;
}

}  // namespace internal

LiveFrame::Running::Running(LiveFrame& frame) : frame_(frame) {
  _PyCFrame* outer = frame.thread_->cframe;
  link_.previous = outer;
  link_.current_frame = frame.frame_;
  frame.frame_->previous = outer->current_frame;
  internal::set_current_offset(frame.frame_, frame.offset_);
  frame.thread_->cframe = &link_;
}

LiveFrame::Running::~Running() { frame_.thread_->cframe = link_.previous; }

bool LiveFrame::is_watched(PyThreadState* thread) {
  return thread->c_tracefunc != nullptr || thread->c_profilefunc != nullptr;
}

}  // namespace braze::cpython
#endif
