// A frame that is carried out piece by piece: some pieces by a driver, which reads and writes its
// locals and value stack, the others by CPython's own interpreter, which is made to leave the frame
// at given instructions.
//
// How CPython is made to leave: it runs a copy of the frame's code object (`StopCode`) in which the
// first unit of each such instruction is one that returns to C. Jumps, exception handlers,
// tracebacks and line numbers work as ever, because offsets and tables are the same. Only
// `f_code` of the frame is another, equal but for these units, as long as CPython is in it.
#pragma once

#include <vector>

#include "cpython/code.h"
#include "cpython/frame.h"
#include "cpython/resumable.h"

namespace braze::cpython {

// A code object with places where CPython leaves the frame.
class StopCode {
 public:
  // `offsets`: code units of enterable instructions, behind the prologue. Throws InternalError if
  // CPython refuses.
  StopCode(PyCodeObject* code, std::vector<int> offsets);

  struct Stop {
    int offset;
    int unit;   // CPython leaves here: at the PRECALL in front of a CALL (3.11)
    int depth;  // of the value stack
  };
  // The stop whose unit, or offset, this is; null: none.
  const Stop* left_at(int unit) const;
  const Stop* at(int offset) const;
  PyCodeObject* code() const { return reinterpret_cast<PyCodeObject*>(code_.get()); }

 private:
  Ref code_;
  std::vector<Stop> stops_;  // by offset
};

// A yield, a return: what ends a generator's turn.
bool is_exit(const Instruction& instruction);
// An exception at this instruction ends a generator's frame, and CPython (3.12) clears the frame
// before it returns to C: it must not be carried out piece by piece.
bool ends_generator_unhandled(const DecodedCode& decoded, int index);
// Stops, and in a generator's code those before all such instructions and all exits: only the
// evaluation that has resumed the generator can carry them out.
std::vector<int> with_generator_exits(PyCodeObject* code, std::vector<int> offsets);

class LiveFrame {
 public:
  // A frame that a `call_driven` or `Resumption` hands over. Exactly one of the functions that
  // leave the frame must be called in the end.
  // `suspension`: of one that a Resumable does; CPython then goes on by itself when the driver has
  // returned, and the generator comes back when it is resumed after its next yield.
  LiveFrame(PyThreadState* thread, FrameView view, const Suspension* suspension = nullptr);
  LiveFrame(const LiveFrame&) = delete;

  PyThreadState* thread() const { return thread_; }
  FrameView view() const { return FrameView(frame_); }
  PyCodeObject* code() const { return view().code(); }
  // Code unit of the next instruction.
  int offset() const { return offset_; }
  void set_offset(int offset) { offset_ = offset; }

  // The locals and behind them the value stack, unset ones and NULLs null.
  PyObject** slots() const;
  int stack_size() const;
  // Takes over the references; what was there is returned, to be dropped when all is consistent.
  std::vector<Ref> replace_stack(std::vector<Ref> stack);
  std::vector<Ref> pop(int count);
  void push(Ref value);

  // While it lives, the frame is the thread's current one, counts as a level of recursion, and is
  // carrying out its next instruction: for calls out of it.
  class Running {
   public:
    explicit Running(LiveFrame& frame);
    ~Running();
    Running(const Running&) = delete;

   private:
    LiveFrame& frame_;
#if PY_VERSION_HEX < 0x030D0000
    _PyCFrame link_;
#else
    _PyInterpreterFrame* outer_;
#endif
  };

  // CPython goes on. True: it is before an instruction of `stops`, now the next one. False: the
  // frame is left (it has returned, yielded or raised); *result is what the driver must return.
  // `raise`: the pending exception is raised at the next instruction.
  bool run_until(const StopCode& stops, bool raise, PyObject** result);

  // Leave the frame. CPython goes on to the end.
  PyObject* finish();
  // The pending exception is raised at the next instruction, and CPython goes on.
  PyObject* finish_raising();

  // Of a Resumable's frame: it is before a yield or another instruction that CPython must carry out
  // after the driver has left the frame.
  bool is_at_exit() const;
  // The same, with something on the stack: from here on, or from the next yield on, CPython keeps
  // the generator.
  PyObject* leave_to_cpython();
  void stay_with_cpython() { stays_ = true; }

  // A trace or profile function watches the thread: CPython must carry out every instruction.
  static bool is_watched(PyThreadState* thread);

 private:
  PyObject* hand_over(bool raise);
  PyObject* hand_over_raised();
  void wait_in_copy(int unit);

  PyThreadState* thread_;
  _PyInterpreterFrame* frame_;
  int offset_;
  const Suspension* suspension_;
  bool stays_ = false;
};

// Calls `function` (a Python function, or a method of one, that makes no generator) with these
// arguments; its frame, before the first instruction, is handed to `driver`, which leaves it and
// returns what LiveFrame's functions returned. Otherwise as call_from.
using Driver = PyObject* (*)(void* context, PyThreadState* thread, FrameView view);
PyObject* call_driven(PyObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames,
                      Driver driver, void* context);

// Whether call_driven takes it.
bool can_be_driven(PyObject* callable);

// While it lives, the next frame of this code that CPython starts or resumes on this thread (and
// not by raising in it) is handed to `driver`; then it is spent.
class Resumption {
 public:
  Resumption(PyCodeObject* code, Driver driver, void* context);
  ~Resumption();
  Resumption(const Resumption&) = delete;

 private:
  struct Shot;
  Shot* shot_;
};

}  // namespace braze::cpython
