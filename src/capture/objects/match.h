// The instructions of match statements.
#pragma once

#include "capture/world/slot.h"

namespace braze::capture {

struct TraceContext;

// A tuple of the values of `keys`, or None if one is missing.
Slot match_keys(TraceContext& trace, const Slot& subject, const Slot& keys);
// A tuple of the matched attributes, or None.
Slot match_class(TraceContext& trace, const Slot& subject, const Slot& cls, const Slot& names,
                 int count);

}  // namespace braze::capture
