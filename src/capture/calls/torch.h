// Calls of torch: its functions and the methods of tensors.
#pragma once

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

// A function of the module `module`.
Tracked call_torch(TraceContext& trace, const Tracked& callable, const char* module,
                   const char* name, Tracked* args, size_t count, PyObject* kwnames);
Tracked call_tensor_method(TraceContext& trace, const Tracked& callable, const char* name,
                           const Tracked& self, Tracked* args, size_t count, PyObject* kwnames,
                           bool unbound);
// PyTorch looks into what it is given without a trace of it: arrays, numbers of NumPy's, objects
// with __index__ or __array__.
bool may_give_torch(TraceContext& trace, PyObject* object, const char* owner, const char* function);

}  // namespace braze::capture
