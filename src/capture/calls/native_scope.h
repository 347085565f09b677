// A scope for the time in which native code that the trace has called is running.
#pragma once

#include "capture/frames/origin.h"
#include "capture/trace_context.h"

namespace braze::capture {

// While it lives, frames that native code makes are not the user's, if that is `torch`'s.
class NativeScope {
 public:
  NativeScope(TraceContext& trace, bool torch, PyObject* callee = nullptr)
      : trace_(trace), torch_(torch), before_(trace.native) {
    if (!torch_ || trace.native.depth++ > 0) return;
    trace.native.callee = callee;
    trace.native.frame = trace.frames.top();
    trace.native.module = module_under_way(trace);
  }
  ~NativeScope() {
    if (!torch_) return;
    --trace_.native.depth;
    trace_.native.callee = before_.callee;
    trace_.native.frame = before_.frame;
    trace_.native.module = before_.module;
  }
  NativeScope(const NativeScope&) = delete;

 private:
  TraceContext& trace_;
  bool torch_;
  NativeCode before_;
};

}  // namespace braze::capture
