// The record of torch-level calls that a backend of the user's is given.
#pragma once

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

// Nothing where no record is asked for (Options::record_torch_calls), or in native code of torch.
void record_torch_call(TraceContext& trace, PyObject* callable, const Tracked* args, size_t count,
                       PyObject* kwnames, PyObject* result);

}  // namespace braze::capture
