#include "cpython/ref.h"

#if PY_VERSION_HEX < 0x030C0000
#include "cpython/code.h"
#include "cpython/frame_layout.h"

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
void set_next_instruction(_PyInterpreterFrame* frame, PyCodeObject* code, const FrameState& state) {
  frame->prev_instr = first_instruction(code) + state.offset - (state.raise ? 0 : 1);
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

// _PyEval_Vector clears and pops the frame whatever the evaluator did.
void discard(PyThreadState*, _PyInterpreterFrame*) {}

}  // namespace internal

}  // namespace braze::cpython
#endif
