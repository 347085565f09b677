// Globals, and the cells of variables that functions share.
#pragma once

#include "capture/frames/frame.h"

namespace braze::capture {

struct TraceContext;

// A global that has been read before, in the same state of the dicts, is given again: its guards
// are there. Names are those of code objects, which stay.
Tracked load_global(TraceContext& trace, Frame& frame, PyObject* name);
// An empty value: delete.
bool store_global(TraceContext& trace, Frame& frame, PyObject* name, const Tracked& value);
// What the cell holds; an empty Tracked and no exception where it holds nothing.
Tracked read_cell(TraceContext& trace, PyObject* cell);
Tracked load_deref(TraceContext& trace, Frame& frame, int index);
// An empty value: delete.
bool store_deref(TraceContext& trace, Frame& frame, int index, Tracked value);
// Where the cells that a function from outside closes over come from.
void read_closure(TraceContext& trace, PyFunctionObject* function);
void copy_free_vars(TraceContext& trace, Frame& frame, int count);

}  // namespace braze::capture
