// Writing and deleting attributes.
#pragma once

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

// An empty value: delete.
bool setattr(TraceContext& trace, const Tracked& object, PyObject* name, const Tracked& value);
// A dict from outside that an object of the trace has as its `__dict__`; else null.
PyObject* outside_dict_of(TraceContext& trace, PyObject* object);
// As object.__setattr__.
bool generic_setattr(TraceContext& trace, const Tracked& object, PyObject* name,
                     const Tracked& value);

}  // namespace braze::capture
