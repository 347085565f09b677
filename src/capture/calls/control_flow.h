// torch.cond and torch.while_loop on data: each branch is evaluated once, as a region of the graph.
//
// A region runs, or not, or many times, so that it must be nothing but tensors: what it would
// change for Python code is a break, and the operator runs for real.
#pragma once

#include "capture/policy/policy.h"
#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

Tracked call_control_flow(TraceContext& trace, ControlFlowCall call, Tracked* args, size_t count);

}  // namespace braze::capture
