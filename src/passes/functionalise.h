// Takes mutation out of a graph: afterwards no node writes to its arguments.
//
// Needs: a graph as traced, where values that share memory have one storage number. Guarantees:
// verify_functional holds; every read of a mutated tensor or of a view of it sees the value that
// eager would see; what eager writes into inputs stands in Graph::mutations; outputs alias inputs
// and each other as before (aliasing.h).
//
//   before                                          after
//   %1: f32[4]+4 #%0 = aten.select.int(%0, 0, 1)    %1 = aten.select.int(%0, 0, 1)
//   %2: f32[4]+4 #%0 = aten.relu_(%1)               %3 = aten.relu(%1)
//   %4 = aten.neg(%0)                               %5 = aten.select_scatter(%0, %3, 0, 1)
//   return %4                                       %4 = aten.neg(%5)
//                                                   return %4
//                                                   mutate %0 <- %5
//
// How: each mutated storage has a root (an input or the result that allocated it) and the root's
// current contents as a functional value. A write to a view goes up the chain of views to the root
// by the inverse of each; a read after that builds the chain of views anew on the current root.
// It stands first in the pipeline, since all other passes rely on values not changing.
#pragma once

#include "graph/graph.h"
#include "passes/unsupported.h"

namespace braze::passes {

// Whether the graph changed. Throws Unsupported, the graph unchanged, for what has no functional
// form here: random numbers drawn into a tensor that is not contiguous, resizing, writes through
// views without an inverse.
bool functionalise(graph::Graph& graph);
// The same for a graph that PyTorch's operators run with autograd on: as in eager, a write through
// a detached alias leaves the history as it was (graph::kWithHistory), and one of a constant gives
// zeros to what was there.
bool functionalise_with_histories(graph::Graph& graph);
// Whether the two may differ.
bool hides_histories(const graph::Graph& graph);

}  // namespace braze::passes
