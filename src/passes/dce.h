// Dead code elimination: removes nodes without effects whose results nothing uses.
//
//   before                                  after
//   %1: f32[4] = aten.exp(%0)               %2: f32[4] = aten.neg(%0)
//   %2: f32[4] = aten.neg(%0)               return %2
//   return %2
//
// What has effects (writes, draws random numbers, is opaque) stays, and so does what may refuse its
// operands' data (graph/data_errors.h). Graph inputs stay too: they are the signature.
#pragma once

#include "graph/graph.h"

namespace braze::passes {

// Whether the graph changed.
bool eliminate_dead_code(graph::Graph& graph);

}  // namespace braze::passes
