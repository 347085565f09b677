// `backward()` and `torch.autograd.grad()` in the traced code: the formulas of the backward become
// a part of the graph, and `.grad` of leaves from outside a change that the exit carries out.
#pragma once

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

// braze._C.run_backward(tensors, tangents, inputs, keeps_graph, creates_graph, accumulates), as
// python/braze/_substitutes.py calls it: a tuple of gradients.
Tracked call_backward(TraceContext& trace, Tracked* args, size_t count);

}  // namespace braze::capture
