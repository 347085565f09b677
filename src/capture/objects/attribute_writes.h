// Writing and deleting attributes.
#pragma once

#include "capture/world/slot.h"

namespace braze::capture {

struct TraceContext;

// An empty value: delete.
bool setattr(TraceContext& trace, const Slot& object, PyObject* name, const Slot& value);
// As object.__setattr__.
bool generic_setattr(TraceContext& trace, const Slot& object, PyObject* name, const Slot& value);

}  // namespace braze::capture
