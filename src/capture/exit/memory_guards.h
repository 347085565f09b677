// What a graph that writes to its inputs takes for granted about where they lie in memory.
#pragma once

#include <vector>

#include "capture/capture.h"
#include "capture/world/world.h"

namespace braze::capture {

// Inputs with one storage number in the graph lie in memory as they do now, those of other numbers
// share nothing with what is written. Nothing where the graph writes to no input.
void add_memory_guards(World& world, const graph::Graph& graph,
                       const std::vector<DraftInput>& inputs);

}  // namespace braze::capture
