// Attributes of tensors: what of them a trace can know.
#pragma once

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

// As getattr.
Tracked tensor_attribute_of(TraceContext& trace, const Tracked& tensor, PyObject* name,
                            Tracked* self);
// An attribute of the program's own: neither PyTorch's, nor by its name one that it looks for.
bool set_tensor_attribute(TraceContext& trace, const Tracked& tensor, PyObject* name,
                          const Tracked& value);

}  // namespace braze::capture
