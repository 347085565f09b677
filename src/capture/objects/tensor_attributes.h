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

// `requires_grad_(value)` and the like of a tensor from outside; false where it cannot be, with
// nothing pending, or with a break.
bool change_requires_grad(TraceContext& trace, const Tracked& tensor, bool value);
// `detach_()`, as well.
bool detach_in_place(TraceContext& trace, const Tracked& tensor);

}  // namespace braze::capture
