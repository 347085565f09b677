// contextvars.ContextVar: read with guards; the trace works on a copy of the context.
#pragma once

#include <vector>

#include "base/identity_map.h"
#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

struct ContextVariables {
  struct Write {
    Ref var, value;  // the value before the first write
  };
  std::vector<Write> writes;
  IdentityMap<const Source*> sources;
};

Tracked call_context_var(TraceContext& trace, PyObject* var, const char* name, PyObject* callable,
                         Tracked* args, size_t count, PyObject* kwnames, bool unbound);
// At the end of the trace some variable is not as it was.
bool context_changed(TraceContext& trace);

}  // namespace braze::capture
