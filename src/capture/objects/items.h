// Items of containers and tensors.
#pragma once

#include "capture/world/slot.h"

namespace braze::capture {

struct TraceContext;

Slot getitem(TraceContext& trace, const Slot& object, const Slot& key);
// An empty value: delete.
bool setitem(TraceContext& trace, const Slot& object, const Slot& key, const Slot& value);
// operator.itemgetter and attrgetter: what they read is guarded like the expressions they stand
// for. `done`: the getter is one of them.
Slot call_getter(TraceContext& trace, const Slot& getter, const Slot& object, bool& done);

}  // namespace braze::capture
