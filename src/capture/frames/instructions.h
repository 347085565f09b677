// The instructions that the loop of frames/evaluate.cpp does not carry out itself.
#pragma once

#include "capture/frames/frame.h"
#include "cpython/code.h"

namespace braze::capture {

struct TraceContext;

bool run_instruction(TraceContext& trace, Frame& frame, const cpython::Instruction& in);
// A break, always false.
bool unsupported_instruction(TraceContext& trace, Frame& frame, const cpython::Instruction& in);

}  // namespace braze::capture
