// Which devices values are on.
#pragma once

#include <span>

#include "graph/types.h"

namespace braze::graph {

// Whether memory of one is memory of the other: the number of a CPU means nothing.
bool same_device(Device a, Device b);

// The device of an elementwise result: the operands', of which those on the CPU may stand beside
// others if they have no dimensions. InternalError for operands that eager refuses.
Device common_device(std::span<const TensorType* const> operands);

}  // namespace braze::graph
