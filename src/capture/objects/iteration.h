// Iterators: making and advancing them, unpacking, lists of what they give.
#pragma once

#include "capture/frames/frame.h"

namespace braze::capture {

struct TraceContext;

Tracked get_iter(TraceContext& trace, const Tracked& iterable);
// `keep_stop`: a StopIteration that the iterator itself has raised stays pending.
Tracked next_item(TraceContext& trace, const Tracked& iterator, bool& exhausted,
                  bool keep_stop = false);
// The contents of any iterable as a list.
Ref to_list(TraceContext& trace, const Tracked& iterable);
bool unpack(TraceContext& trace, Frame& frame, int before, int after, bool starred);
// An iterator whose state Python code does not hold, from outside: advancing it cannot be undone.
bool is_foreign_iterator(TraceContext& trace, PyObject* object);

}  // namespace braze::capture
