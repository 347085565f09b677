// Branches on data of which one way does nothing but raise: `if not mask.any(): raise ...`.
//
// The capture goes the other way and has the compiled code assert that it is the right one. Where
// it is not, the call runs again in eager, which raises what the user wrote. Branches that raise
// what the captured code, or the interpreter, may catch are breaks as others are: they are ways on.
#pragma once

#include "capture/frames/frame.h"

namespace braze::capture {

struct TraceContext;

// As truth(), of the condition of the instruction at `at`, if that is a jump.
int truth_for_jump(TraceContext& trace, const Frame& frame, const Tracked& condition, int at);

}  // namespace braze::capture
