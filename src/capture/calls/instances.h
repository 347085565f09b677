// Calls of classes: how instances are made.
#pragma once

#include "capture/world/slot.h"

namespace braze::capture {

struct TraceContext;

Slot call_type(TraceContext& trace, const Slot& callable, Slot* args, size_t count,
               PyObject* kwnames);
// `cls.__new__(cls, ...)` of a class made in C.
Slot call_new(TraceContext& trace, const Slot& callable, Slot* args, size_t count,
              PyObject* kwnames);

}  // namespace braze::capture
