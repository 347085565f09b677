// Instructions that build containers, strings and slices, or add to a container that the frame is
// building: displays, comprehensions, the arguments of calls with * and **.
#pragma once

#include <string>

#include "capture/frames/frame.h"
#include "cpython/code.h"

namespace braze::capture {

struct TraceContext;

// Tuples, lists, sets, dicts, strings and slices from stack entries.
bool build_display(TraceContext& trace, Frame& frame, const cpython::Instruction& in);
// Adds to a container that the frame is building.
bool extend_display(TraceContext& trace, Frame& frame, const cpython::Instruction& in);
// A TypeError that begins with what is called, as CPython names it; that of an object whose own
// code would have to be asked is left to CPython.
bool raise_about_call(TraceContext& trace, PyObject* callable, const std::string& what);

}  // namespace braze::capture
