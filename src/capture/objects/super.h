// super() and special methods.
#pragma once

#include "capture/frames/frame.h"

namespace braze::capture {

struct TraceContext;

// `super(cls, self).name`; with `method_self` as getattr.
Tracked super_attribute(TraceContext& trace, const Tracked& cls, const Tracked& self,
                        PyObject* name, Tracked* method_self);
// super(): the class from the cell __class__, the object from local 0.
Tracked bare_super(TraceContext& trace, Frame& frame);
// The method of the class, bound, past the instance; AttributeError if there is none.
Tracked special_method(TraceContext& trace, const Tracked& object, PyObject* name);

}  // namespace braze::capture
