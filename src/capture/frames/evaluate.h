// The loop over a frame's instructions, and how frames are run.
//
// An empty Tracked, a false or a null means, here and in all functions of the evaluation, that an
// exception is pending.
#pragma once

#include <memory>

#include "capture/frames/frame.h"

namespace braze::capture {

struct TraceContext;

// Evaluates the root function on bound parameters. `stop_at`: the number of instructions of the
// root frame before which to stop (`progress.stopped_frame` then holds its state), or -1.
Tracked run_root(TraceContext& trace, PyObject* const* args, int64_t stop_at);
// Runs a frame that has its arguments to its end and gives what it returns.
Tracked start_frame(TraceContext& trace, std::unique_ptr<Frame> frame);
// Runs a frame until it returns, yields, raises or is stopped. `throwing`: it begins with the
// pending exception.
Status run_frame(TraceContext& trace, Frame& frame, Tracked& result, bool throwing);
// Whether the trace may go on: neither too deep nor too long; else a break is pending.
bool budget_left(TraceContext& trace);

}  // namespace braze::capture
