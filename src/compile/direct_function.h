// Functions without kernels: every node of the graph is a call through PyTorch's dispatcher.
#pragma once

#include "graph/graph.h"
#include "plan/function.h"

namespace braze::compile {

// One ExternStep per node, in order, and a FreeStep after the last use of each result. A result
// that the op wrote in place is the slot of its argument; the graph's mutations become copies at
// the end.
plan::Function direct_function(const graph::Graph& graph);

}  // namespace braze::compile
