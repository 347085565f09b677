// Methods of C types.
#pragma once

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

// `unbound`: `callable` takes self as its first argument.
Tracked call_method_of(TraceContext& trace, PyObject* callable, const char* name,
                       const Tracked& self, Tracked* args, size_t count, PyObject* kwnames,
                       bool unbound);
Tracked call_unbound(TraceContext& trace, PyObject* callable, const Tracked& self, Tracked* args,
                     size_t count, PyObject* kwnames, bool unbound);

}  // namespace braze::capture
