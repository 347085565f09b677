// What the instruction under way is about, for messages of breaks.
#pragma once

#include "capture/trace_context.h"

namespace braze::capture {

// While it lives, a break is about this object.
class Subject {
 public:
  Subject(TraceContext& trace, const Tracked& tracked) : trace_(trace), before_(trace.subject) {
    trace.subject = {&tracked, trace.frames.top()};
  }
  ~Subject() { trace_.subject = before_; }
  Subject(const Subject&) = delete;

 private:
  TraceContext& trace_;
  CurrentSubject before_;
};

}  // namespace braze::capture
