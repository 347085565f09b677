// import statements.
#pragma once

#include "capture/frames/frame.h"

namespace braze::capture {

struct TraceContext;

Tracked import_name(TraceContext& trace, Frame& frame, PyObject* name, const Tracked& from_list,
                    const Tracked& level);
Tracked import_from(TraceContext& trace, const Tracked& module, PyObject* name);

}  // namespace braze::capture
