// Generators are CPython's own objects. When one is resumed its frame comes to the hook; it is
// evaluated up to the next yield and then handed back in that state.
#pragma once

#include "capture/frames/frame.h"
#include "cpython/code.h"
#include "cpython/frame.h"

namespace braze::capture {

struct TraceContext;

// The trace made it.
void mark_generator(TraceContext& trace, PyObject* generator);
// The next piece of a generator of the trace, for `frame_hook`.
PyObject* resume_generator(TraceContext& trace, PyThreadState* thread, cpython::FrameView view,
                           bool throwing);
// Of a trace that is thrown away: the generator ends with the pending exception, but without its
// handlers, which would run for real. None is in force behind RETURN_GENERATOR.
PyObject* end_generator(PyThreadState* thread, cpython::FrameView view);
// (receiver value -- receiver result); finished: the result stands for the value, and on to the
// target.
bool send_value(TraceContext& trace, Frame& frame, const cpython::Instruction& in);
// StopIteration may not leave a generator.
Tracked stop_iteration_error(const Tracked& exception);
// (receiver last exception -- None value): the end of a `yield from` into which was thrown.
bool cleanup_throw(TraceContext& trace, Frame& frame);

}  // namespace braze::capture
