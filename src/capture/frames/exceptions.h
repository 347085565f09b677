// raise, the search for a handler, except*, with.
#pragma once

#include "capture/frames/frame.h"

namespace braze::capture {

struct TraceContext;

// `raise` with so many operands on the stack: the exception is pending.
void raise_varargs(TraceContext& trace, int count, Frame& frame);
// Unwinds to a handler of the frame; false if there is none.
bool unwind(TraceContext& trace, Frame& frame);
bool check_exception_match(TraceContext& trace, Frame& frame);
// (exception type -- rest match), or (exception -- exception None) where nothing matches.
bool check_group_match(TraceContext& trace, Frame& frame);
// What goes on flying after the handlers of except*: the parts that none of them took. None:
// nothing.
Tracked exceptions_to_raise(TraceContext& trace, const Tracked& original, const Tracked& raised);
// (manager -- exit entered)
bool enter_with(TraceContext& trace, Frame& frame);

}  // namespace braze::capture
