// Inside of frame.cpp: the few things that depend on the layout of a frame. Each CPython version
// has its own source (frame_311.cpp, ...), which declares the layout again, so that no other file
// sees CPython's internal structs and Py_BUILD_CORE is not needed.
#pragma once

#include "cpython/frame.h"

namespace braze::cpython::internal {

// The frame, which is about to start or to resume, goes on in `state` instead. Returns what its
// locals and stack held.
std::vector<Ref> set_state(_PyInterpreterFrame* frame, FrameState&& state);

// The hook has produced the frame's result without running it: does what the interpreter would have
// done at its end, where CPython leaves that to the evaluator.
void discard(PyThreadState* thread, _PyInterpreterFrame* frame);

}  // namespace braze::cpython::internal
