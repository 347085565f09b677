// The symbols of a finished trace as guards, recipe values and, where the user asked for more than
// the code allows, an error.
#pragma once

#include "capture/capture.h"
#include "capture/trace_context.h"

namespace braze::capture {

// Before the recording is finished: marked dimensions that have become numbers, as a message for
// the user; empty if none has.
std::string broken_marks(TraceContext& trace);

// After it: fills `draft.shapes` and `draft.fixed_integers`, and puts the numbers of the recipe
// over the graph's symbols. The guards of the draft are still the world's.
void add_shape_guards(TraceContext& trace, const Recording::Result& recorded, Draft& draft);

}  // namespace braze::capture
