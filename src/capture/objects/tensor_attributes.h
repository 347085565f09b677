// Attributes of tensors: what of them a trace can know.
#pragma once

#include "capture/world/slot.h"

namespace braze::capture {

struct TraceContext;

// As getattr.
Slot tensor_attribute_of(TraceContext& trace, const Slot& tensor, PyObject* name, Slot* self);
// An attribute of the program's own: neither PyTorch's, nor by its name one that it looks for.
bool set_tensor_attribute(TraceContext& trace, const Slot& tensor, PyObject* name,
                          const Slot& value);

}  // namespace braze::capture
