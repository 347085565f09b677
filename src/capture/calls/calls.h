// Calls: which kind of callable it is.
#pragma once

#include "capture/world/slot.h"

namespace braze::capture {

struct TraceContext;

Slot call(TraceContext& trace, const Slot& callable, Slot* args, size_t count, PyObject* kwnames);
// Of a tuple and a dict or null.
Slot call_ex(TraceContext& trace, const Slot& callable, PyObject* args, PyObject* kwargs);
// callable(*args, **kwargs)
Slot call_unpacked(TraceContext& trace, const Slot& callable, const Slot& args, const Slot& kwargs);
Slot call_numpy(TraceContext& trace, const Slot& callable, Slot* args, size_t count,
                PyObject* kwnames);
// logger.warning and so on; not what asks for the logger's level.
bool is_log_method(PyObject* self, PyObject* function);

}  // namespace braze::capture
