// `with` of a torch.autocast that was made outside, as functions have that it decorates.
//
// What it sets is guarded. It notes in its attributes, for its end, the state that it has found: in
// the trace a copy of it is entered and ended, and the notes are written as any attribute is.
#pragma once

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

// A call of its __enter__, or of its __exit__ where the trace has entered it. `done` is false for
// all else, with nothing pending.
Tracked call_of_autocast(TraceContext& trace, const Tracked& callable, const char* module,
                         const char* name, Tracked* args, size_t count, PyObject* kwnames,
                         bool& done);

}  // namespace braze::capture
