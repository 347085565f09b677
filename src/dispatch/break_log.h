// BRAZE_LOG=breaks: each break of the process once, however often its code is compiled.
#pragma once

#include <string>

#include "capture/breaks/reason.h"

namespace braze::dispatch {

// Writes `reason` if the component is on and this break has not been written yet. `name`: the
// compiled function. Needs the GIL.
void log_break(const std::string& name, const capture::BreakReason& reason);

}  // namespace braze::dispatch
