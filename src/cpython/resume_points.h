// Inside of resumable.cpp and live_frame.cpp: where a generator's code can be resumed, and the copy
// of it in which a generator waits.
//
// Behind the bytecode, which is that of the original, the copy has a tail for each YIELD_VALUE:
//
//   YIELD_VALUE              as in the body; a generator that waits stands here
//   RESUME                   as in the body: CPython tells `yield from` by its argument
//   gate()                   the driver takes the frame from here, or ...
//   jump to the body         ... CPython goes on in the copy, where nothing calls the gate again
//
// and one for the start. Lines and exception handlers of a tail are those of the body. 3.11 carries
// out the end of a `yield from` into which was thrown by itself: it wants a SEND before the
// YIELD_VALUE, and goes on where that leads, which is a second call of the gate.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "cpython/code.h"
#include "cpython/live_frame.h"
#include "cpython/resumable.h"

namespace braze::cpython {

// All offsets are code units; those of tails are of the copy, all others of both.
struct Tails {
  std::string units, lines, handlers;  // of the copy
  std::map<int, int> places;           // by the unit behind a call of the gate: where the frame is
  std::map<int, int> by_offset;        // of instructions that have a tail
  int start = 0;                       // a generator that has not started stands here
  int reraise = 0;                     // a RERAISE 1 behind which no handler is
};

class ResumePoints {
 public:
  // Throws InternalError where the code is not as CPython's compiler makes it.
  ResumePoints(PyCodeObject* code, Resumable::Driver driver, std::shared_ptr<void> context);

  PyCodeObject* code() const { return reinterpret_cast<PyCodeObject*>(code_.get()); }
  PyObject* drive(PyThreadState* thread, FrameView view, PyCodeObject* copy) const;

  // Where the frame is, in terms of the original, when the call of the gate that ends before `unit`
  // is under way; -1: there is none.
  int place_of_gate(int unit) const;
  // Instructions that only the evaluation under way can carry out: yields and returns, and what
  // would end the frame by an exception where the interpreter then clears it (3.12).
  bool is_exit(int offset) const { return exits_->at(offset) != nullptr; }
  const StopCode& exits() const { return *exits_; }
  // The tail that does what the instruction at `offset` does; -1: none. A return of a constant has
  // one that first drops the top of the stack.
  int tail_of(int offset) const;
  int start() const { return tails_.start; }
  // Raises the top of the stack out of the frame, at the offset below it.
  int reraise() const { return tails_.reraise; }

  // The copy. `gate`: what its tails call.
  Ref copy(PyObject* gate) const;

 private:
  Ref code_;
  Resumable::Driver driver_;
  std::shared_ptr<void> context_;
  Tails tails_;
  std::unique_ptr<StopCode> exits_;
};

// How CPython is to go on with a resumed frame that the driver has in hand.
struct Suspension {
  const ResumePoints& points;
  PyCodeObject* copy;
};

}  // namespace braze::cpython
