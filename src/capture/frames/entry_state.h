// A segment that begins in the middle of a frame: its entry state, which is read as late as can be.
#pragma once

#include "base/identity_map.h"
#include "capture/frames/frame.h"
#include "cpython/code.h"

namespace braze::capture {

struct TraceContext;

struct EntryState {
  bool lazy = false;  // values of the root frame may be unread
  // Objects of the entry state whose end the program notices and whose only owner is the frame.
  IdentityMap<bool> mortal;
};

// Puts the frame into the state that the segment finds: all locals and behind them the value stack.
void begin_segment(TraceContext& trace, Frame& frame, PyObject* const* entry);
// Refuses an object from outside of a class whose statement stands in the function under capture,
// or in one that is driven and has called it. It is another class at each call: a segment that is
// guarded for it is kept, the class and what its methods refer to with it, and never used again.
bool may_guard_class_of(TraceContext& trace, PyObject* object);
// Reads and guards a value of the entry state, if nothing has yet.
bool force(TraceContext& trace, Tracked& tracked);
// Values of the entry state are guarded when an instruction looks at them, not where they are moved
// or handed on: a segment then serves all values that pass through it.
bool force_operands(TraceContext& trace, Frame& frame, const cpython::Instruction& in);
// The frame keeps the entry state until the segment's exit, where what the segment drops goes.
bool may_drop(TraceContext& trace, const Tracked& tracked);

}  // namespace braze::capture
