// Classes that the traced code makes by collections.namedtuple. The function runs natively, as it
// makes a class from text. Outside of the trace the class is made again, in each call, as in eager.
#pragma once

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

struct NamedTupleClass {
  Ref made;
  Ref maker;   // a functools.partial that makes such a class
  Ref before;  // what it consisted of when it was made
};

bool is_namedtuple(PyFunctionObject* function);
Tracked make_named_tuple(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                         PyObject* kwnames);
// What makes such a class again; null where the class is no such one, or has been changed.
PyObject* maker_of_class(const TraceContext& trace, PyObject* cls);

}  // namespace braze::capture
