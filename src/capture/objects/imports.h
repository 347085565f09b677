// import statements.
#pragma once

#include "capture/frames/frame.h"

namespace braze::capture {

struct TraceContext;

Slot import_name(TraceContext& trace, Frame& frame, PyObject* name, const Slot& from_list,
                 const Slot& level);
Slot import_from(TraceContext& trace, const Slot& module, PyObject* name);

}  // namespace braze::capture
