// Class statements, and which classes there are of a class. CPython's __build_class__ makes the
// class; the frame of its body comes to the hook and is evaluated over the namespace that the
// metaclass prepared.
#pragma once

#include "capture/frames/frame.h"
#include "cpython/code.h"

namespace braze::capture {

struct TraceContext;

Tracked build_class(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                    PyObject* kwnames);
// A class of the trace stands in the list of subclasses of its bases for as long as it lives.
void note_class(TraceContext& trace, PyObject* made);
// The class whose `__subclasses__()` the call is, bound or not; null: it is another call.
PyObject* whose_subclasses(PyObject* callable, const Tracked* args, size_t count);
// What it gives: each call that the compiled code is for has the same ones, in order.
Tracked subclasses(TraceContext& trace, PyObject* cls);
// Instructions of the bodies of classes.
bool run_class_instruction(TraceContext& trace, Frame& frame, const cpython::Instruction& in);

}  // namespace braze::capture
