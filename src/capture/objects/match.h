// The instructions of match statements.
#pragma once

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

// A tuple of the values of `keys`, or None if one is missing.
Tracked match_keys(TraceContext& trace, const Tracked& subject, const Tracked& keys);
// A tuple of the matched attributes, or None.
Tracked match_class(TraceContext& trace, const Tracked& subject, const Tracked& cls,
                    const Tracked& names, int count);

}  // namespace braze::capture
