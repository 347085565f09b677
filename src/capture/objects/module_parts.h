// torch.nn.Module.__getattr__ in C++: the same reads with the same guards as its Python code.
#pragma once

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

// True if it applies; then `result` is the value, or empty if there is none.
bool module_getattr(TraceContext& trace, const Tracked& module, PyObject* name, Tracked& result);

}  // namespace braze::capture
