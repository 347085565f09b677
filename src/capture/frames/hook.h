// Frames of Python functions that native code calls while tracing.
#pragma once

#include "capture/frames/frame.h"
#include "cpython/frame.h"

namespace braze::capture {

struct TraceContext;

// For cpython::HookScope. `context`: the TraceContext.
PyObject* frame_hook(void* context, PyThreadState* thread, cpython::FrameView view, bool throwing);
// Function, globals and locals of a frame of CPython.
void fill_frame(TraceContext& trace, Frame& frame, cpython::FrameView view);
// Changes of what is outside or in containers, and calls put off.
size_t effects_so_far(TraceContext& trace);

}  // namespace braze::capture
