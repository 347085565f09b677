// Exceptions of torch ops.
#pragma once

#include "capture/world/slot.h"

namespace braze::capture {

struct TraceContext;

// An exception of a torch op is pending. It stays pending if the call, given tensors of zeros of
// the same sizes, raises the like on real tensors; else it becomes a break.
Slot torch_failed(TraceContext& trace, PyObject* callable = nullptr, const Slot* args = nullptr,
                  size_t count = 0, PyObject* kwnames = nullptr);

}  // namespace braze::capture
