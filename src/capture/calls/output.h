// print, warnings and logging: calls that only write text. Nothing that the traced code can read
// depends on them, so they are made, in order, when the compiled code runs. What they are given is
// turned to text where they stand.
#pragma once

#include <vector>

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

struct DeferredCall {
  Tracked callable;
  std::vector<Tracked> args;
  Ref kwnames;
};

Tracked call_print(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                   PyObject* kwnames);
// warnings.warn(message, category=UserWarning, stacklevel=1)
Tracked call_warn(TraceContext& trace, Tracked* args, size_t count, PyObject* kwnames);
// logger.info(message, *values) and so on. The record tells of the line where it stands.
Tracked call_log(TraceContext& trace, const Tracked& logger, PyObject* method, Tracked* args,
                 size_t count, PyObject* kwnames);
// Any other call that nothing in the trace depends on.
Tracked defer_call(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                   PyObject* kwnames);
// The traced code has set what becomes of warnings, which native code cannot see.
bool handles_warnings(TraceContext& trace);
// A warning may be turned into an exception, which flies from where it stands. Guarded.
bool some_warning_raises(TraceContext& trace);

}  // namespace braze::capture
