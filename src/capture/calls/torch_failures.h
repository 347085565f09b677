// Exceptions that torch ops raise on fakes: which of them eager would raise as well.
#pragma once

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

// An exception of a torch op is pending. It stays pending if the call, given tensors of zeros of
// the same sizes, raises the like on real tensors; else it becomes a break.
Tracked torch_failed(TraceContext& trace, PyObject* callable = nullptr,
                     const Tracked* args = nullptr, size_t count = 0, PyObject* kwnames = nullptr);

}  // namespace braze::capture
