// Raising a `TraceBreak`: the reason is kept by the tracer, and the Python exception
// `_C.TraceBreak` carries the control flow through native frames.
#pragma once

#include <string>

#include "trace/tracer.h"

namespace braze::trace {

inline constexpr const char* kReadsData =
    "use torch.where or torch.cond, or move the read out of the compiled function";
inline constexpr const char* kMoveOut =
    "call it outside the compiled function, or wrap that part with braze.disable";

[[noreturn, gnu::cold]] void raise_break(TraceBreak reason);

// Creates `_C.TraceBreak`. False with a Python exception pending.
bool create_break_type(PyObject* module);

}  // namespace braze::trace
