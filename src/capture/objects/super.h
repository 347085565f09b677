// super() and special methods.
#pragma once

#include "capture/frames/frame.h"

namespace braze::capture {

struct TraceContext;

// `super(cls, self).name`; with `method_self` as getattr.
Slot super_attribute(TraceContext& trace, const Slot& cls, const Slot& self, PyObject* name,
                     Slot* method_self);
// super(): the class from the cell __class__, the object from local 0.
Slot bare_super(TraceContext& trace, Frame& frame);
// The method of the class, bound, past the instance; AttributeError if there is none.
Slot special_method(TraceContext& trace, const Slot& object, PyObject* name);

}  // namespace braze::capture
