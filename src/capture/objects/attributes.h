// Reading attributes, as `object.__getattribute__` and the descriptors of classes do it.
#pragma once

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

// With `self`: may give an unbound method and set *self, for a call.
Tracked getattr(TraceContext& trace, const Tracked& object, PyObject* name,
                Tracked* self = nullptr);
// As object.__getattribute__. `quiet`: a missing attribute need not raise, the metaclass or class
// has a __getattr__.
Tracked generic_getattr(TraceContext& trace, const Tracked& object, PyObject* name, Tracked* self,
                        bool quiet);
// What a class attribute gives when it is read through an instance.
Tracked bind_descriptor(TraceContext& trace, PyObject* descriptor, const Source* source,
                        const Tracked& object, Tracked* self);
// A value of a class that cannot change, or that a descriptor of the class made: __name__, __mro__.
Tracked known_class_value(TraceContext& trace, Ref value);
// `__module__` of a class, a str. Borrowed.
PyObject* module_of(PyTypeObject* type);

}  // namespace braze::capture
