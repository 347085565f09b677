// Methods of C types.
#pragma once

#include "capture/world/slot.h"

namespace braze::capture {

struct TraceContext;

// `unbound`: `callable` takes self as its first argument.
Slot call_method_of(TraceContext& trace, PyObject* callable, const char* name, const Slot& self,
                    Slot* args, size_t count, PyObject* kwnames, bool unbound);
Slot call_unbound(TraceContext& trace, PyObject* callable, const Slot& self, Slot* args,
                  size_t count, PyObject* kwnames, bool unbound);

}  // namespace braze::capture
