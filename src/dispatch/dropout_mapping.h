// How PyTorch's dropout draws on the GPU that a graph is for (passes/dropout_masks.h).
#pragma once

#include <optional>

#include "dispatch/settings.h"
#include "graph/graph.h"
#include "passes/dropout_masks.h"

namespace braze::dispatch {

// Nothing where the graph has no dropout on a GPU, where no kernels are made, and where PyTorch's
// masks are not the ones that the mapping gives: that is tried, once for each GPU, by drawing some;
// the generator is put back.
std::optional<passes::DropoutMapping> dropout_mapping_for(const Settings& settings,
                                                          const graph::Graph& graph);

}  // namespace braze::dispatch
