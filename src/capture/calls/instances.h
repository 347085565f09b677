// Calls of classes: how instances are made.
#pragma once

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

Tracked call_type(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                  PyObject* kwnames);
// `cls.__new__(cls, ...)` of a class made in C.
Tracked call_new(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                 PyObject* kwnames);

}  // namespace braze::capture
