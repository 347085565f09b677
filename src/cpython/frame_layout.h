// Inside of frame.cpp: the few things that depend on the layout of a frame. Each CPython version
// has its own source (frame_311.cpp, ...), which declares the layout again, so that no other file
// sees CPython's internal structs and Py_BUILD_CORE is not needed.
#pragma once

#include "cpython/frame.h"

namespace braze::cpython::internal {

// The frame, which is about to start or to resume, goes on in `state` instead. Returns what its
// locals and stack held.
std::vector<Ref> set_state(_PyInterpreterFrame* frame, FrameState&& state);

// The hook has produced the frame's result without running it: does what the interpreter would have
// done at its end, where CPython leaves that to the evaluator.
void discard(PyThreadState* thread, _PyInterpreterFrame* frame);

// A copy of a code object with other parts. Throws InternalError if CPython refuses.
Ref replaced(PyObject* code, const Ref& keywords);

// --- Of a generator that is resumed, and whose frame has called a Python function.

// The frame of `generator` if it is one, of any kind, that has not started; else null.
_PyInterpreterFrame* frame_of_new_generator(PyObject* generator);
// The frame behind the current one if one evaluation carries out both, so that all of it is in
// memory; else null.
_PyInterpreterFrame* caller_in_same_evaluation(PyThreadState* thread);
// While it lives, `caller` (as the function above gives it) may be evaluated again: the current
// frame of the thread is the one that has resumed it, and neither it nor its callee is a level of
// recursion.
class Aside {
 public:
  static constexpr int kLevels = 2;
  Aside(PyThreadState* thread, _PyInterpreterFrame* caller);
  ~Aside();
  Aside(const Aside&) = delete;

 private:
  PyThreadState* thread_;
  _PyInterpreterFrame *caller_, *callee_, *outer_;
};

// --- Of a frame that is carried out piece by piece.

// The instruction that makes CPython leave a frame without ending it. It takes the top of the
// stack.
extern const uint8_t kLeave;

PyObject** slots(_PyInterpreterFrame* frame);
int slot_count(_PyInterpreterFrame* frame);  // locals and stack
void set_slot_count(_PyInterpreterFrame* frame, int count);
// The frame's code object, whose reference is exchanged; offsets stay.
PyCodeObject* exchange_code(_PyInterpreterFrame* frame, PyCodeObject* code);
// The instruction under way, or the last one.
int current_offset(_PyInterpreterFrame* frame);
void set_current_offset(_PyInterpreterFrame* frame, int offset);
// What CPython is about to run; with `raise`, where it is about to raise.
void set_next_offset(_PyInterpreterFrame* frame, int offset, bool raise);

// The thread's current frame is the one before it, as long as no evaluation carries the frame out:
// one that has left it was linked in between, and is gone.
void link_to_current(PyThreadState* thread, _PyInterpreterFrame* frame);

// The frame's memory is the frame's still when the interpreter has come to its end.
bool survives_its_end(_PyInterpreterFrame* frame);

// What the interpreter leaves unbalanced where it leaves a frame by kLeave; and whether it did, or
// came to the frame's end. Made before it is entered.
class Departure {
 public:
  Departure(PyThreadState* thread, _PyInterpreterFrame* frame);
  // After the interpreter has returned a value. `at_stop`: the frame, if it still exists, is at an
  // instruction where it is to leave.
  bool has_ended(bool (*at_stop)(void* context, int offset), void* context) const;
  void balance() const;

 private:
  PyThreadState* thread_;
  _PyInterpreterFrame* frame_;
#if PY_VERSION_HEX >= 0x030C0000
  _PyStackChunk* chunk_;
  PyObject** top_;
  int python_recursion_, c_recursion_;
#endif
#if PY_VERSION_HEX >= 0x030D0000
  _PyInterpreterFrame* current_;
#endif
};

}  // namespace braze::cpython::internal
