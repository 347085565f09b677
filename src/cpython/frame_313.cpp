#include "cpython/ref.h"

#if PY_VERSION_HEX >= 0x030D0000
#include "cpython/code.h"
#include "cpython/frame_layout.h"

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

constexpr char kOwnedByGenerator = 1;

uint16_t* first_instruction(PyCodeObject* code) {
  return reinterpret_cast<uint16_t*>(code->co_code_adaptive);
}

}  // namespace

PyCodeObject* FrameView::code() const {
  return reinterpret_cast<PyCodeObject*>(frame_->f_executable);
}
PyObject* FrameView::function() const { return frame_->f_funcobj; }
PyObject* FrameView::globals() const { return frame_->f_globals; }
PyObject* FrameView::builtins() const { return frame_->f_builtins; }
bool FrameView::is_generator() const { return frame_->owner == kOwnedByGenerator; }

std::span<PyObject* const> FrameView::locals() const {
  return {frame_->localsplus, static_cast<size_t>(code()->co_nlocalsplus)};
}

std::span<PyObject* const> FrameView::stack() const {
  const int locals = code()->co_nlocalsplus;
  return {frame_->localsplus + locals, static_cast<size_t>(frame_->stacktop - locals)};
}

int FrameView::offset() const {
  return static_cast<int>(frame_->instr_ptr - first_instruction(code()));
}

namespace internal {

namespace {

// A frame that is told to raise looks for the handler of the code unit before `instr_ptr`, but
// reports the line of `instr_ptr`. Where both units have the same handler the line is right too.
void set_next_instruction(_PyInterpreterFrame* frame, PyCodeObject* code, const FrameState& state) {
  uint16_t* next = first_instruction(code) + state.offset;
  if (state.raise) {
    const DecodedCode& decoded = decode(code);
    const int index = decoded.index_of_offset(state.offset);
    const bool same = index > 0 && decoded.handler(index) == decoded.handler(index - 1);
    if (!same) ++next;
  }
  frame->instr_ptr = next;
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
  set_next_instruction(frame, code, state);
  return former;
}

void discard(PyThreadState* thread, _PyInterpreterFrame* frame) {
  _PyEval_FrameClearAndPop(thread, frame);
}

}  // namespace internal

}  // namespace braze::cpython
#endif
