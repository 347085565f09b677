// Functions of numpy that are given numbers: they are called while tracing, and give numbers.
#pragma once

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

// What does arithmetic with numbers, and with tuples of them: numpy.sqrt, numpy.prod.
bool is_numpy_arithmetic(PyObject* callable);
// A break where an argument is more than that, or where the function would warn.
Tracked call_numpy(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                   PyObject* kwnames);

}  // namespace braze::capture
