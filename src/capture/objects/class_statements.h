// Class statements. CPython's __build_class__ makes the class; the frame of its body comes to the
// hook and is evaluated over the namespace that the metaclass prepared.
#pragma once

#include "capture/frames/frame.h"
#include "cpython/code.h"

namespace braze::capture {

struct TraceContext;

Tracked build_class(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                    PyObject* kwnames);
// A class of the trace stands in the list of subclasses of its bases for as long as it lives.
void note_class(TraceContext& trace, PyObject* made);
// Instructions of the bodies of classes.
bool run_class_instruction(TraceContext& trace, Frame& frame, const cpython::Instruction& in);

}  // namespace braze::capture
