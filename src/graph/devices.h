// Which devices values are on.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/types.h"

namespace braze::graph {

// Whether memory of one is memory of the other: the number of a CPU means nothing.
bool same_device(Device a, Device b);

// The device of an elementwise result: the operands', of which those on the CPU may stand beside
// others if they have no dimensions. InternalError for operands that eager refuses.
Device common_device(std::span<const TensorType* const> operands);

// The devices beside the CPU that values of the graph are on, each once.
std::vector<Device> accelerators(const Graph& graph);

}  // namespace braze::graph
