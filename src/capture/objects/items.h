// Items of containers and tensors.
#pragma once

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

Tracked getitem(TraceContext& trace, const Tracked& object, const Tracked& key);
// An empty value: delete.
bool setitem(TraceContext& trace, const Tracked& object, const Tracked& key, const Tracked& value);
// operator.itemgetter and attrgetter: what they read is guarded like the expressions they stand
// for. `done`: the getter is one of them.
Tracked call_getter(TraceContext& trace, const Tracked& getter, const Tracked& object, bool& done);

}  // namespace braze::capture
