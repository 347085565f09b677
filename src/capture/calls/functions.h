// Calls of Python functions, and functions that the traced code makes.
#pragma once

#include "capture/frames/frame.h"

namespace braze::capture {

struct TraceContext;

Tracked call_function(TraceContext& trace, const Tracked& function, Tracked* args, size_t count,
                      PyObject* kwnames);
// As if the user had said nothing of it (calls/marks.h).
Tracked call_unmarked(TraceContext& trace, const Tracked& function, Tracked* args, size_t count,
                      PyObject* kwnames);
Tracked make_function(TraceContext& trace, Frame& frame, int flags);
bool set_function_attribute(Frame& frame, int flag);
// A function of torch that can warn runs natively only where the user's backend is to see its
// calls.
bool runs_natively(TraceContext& trace, const CodeInfo& info);
Tracked refuse_code(TraceContext& trace, const CodeInfo& info, BreakKind kind, const char* why);
Tracked refuse_library(TraceContext& trace, const CodeInfo& info);

}  // namespace braze::capture
