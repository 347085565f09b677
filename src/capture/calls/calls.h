// Calls of any callable: they are handed to the source of this folder that knows its kind.
#pragma once

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

Tracked call(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
             PyObject* kwnames);
// Of a tuple and a dict or null.
Tracked call_ex(TraceContext& trace, const Tracked& callable, PyObject* args, PyObject* kwargs);
// callable(*args, **kwargs)
Tracked call_unpacked(TraceContext& trace, const Tracked& callable, const Tracked& args,
                      const Tracked& kwargs);
// logger.warning and so on; not what asks for the logger's level.
bool is_log_method(PyObject* self, PyObject* function);

}  // namespace braze::capture
