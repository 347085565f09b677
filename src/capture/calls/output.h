// print, warnings and logging: calls that only write text. Nothing that the traced code can read
// depends on them, so they are made, in order, when the compiled code runs. What they are given is
// turned to text where they stand.
#pragma once

#include <vector>

#include "capture/world/slot.h"

namespace braze::capture {

struct TraceContext;

struct DeferredCall {
  Slot callable;
  std::vector<Slot> args;
  Ref kwnames;
};

Slot call_print(TraceContext& trace, const Slot& callable, Slot* args, size_t count,
                PyObject* kwnames);
// warnings.warn(message, category=UserWarning, stacklevel=1)
Slot call_warn(TraceContext& trace, Slot* args, size_t count, PyObject* kwnames);
// logger.info(message, *values) and so on. The record tells of the line where it stands.
Slot call_log(TraceContext& trace, const Slot& logger, PyObject* method, Slot* args, size_t count,
              PyObject* kwnames);
// Any other call that nothing in the trace depends on.
Slot defer_call(TraceContext& trace, const Slot& callable, Slot* args, size_t count,
                PyObject* kwnames);
// The traced code has set what becomes of warnings, which native code cannot see.
bool handles_warnings(TraceContext& trace);

}  // namespace braze::capture
