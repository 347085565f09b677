// Common subexpression elimination: nodes that compute the same from the same arguments become one.
//
// Needs and keeps a functional graph. Random ops and ops with effects are left alone, and so are
// two results that the user receives as two tensors with memory of their own.
//
//   before                                  after
//   %1: f32[4] = aten.exp(%0)               %1: f32[4] = aten.exp(%0)
//   %2: f32[4] = aten.exp(%0)               %3: f32[4] = aten.add.Tensor(%1, %1, 1)
//   %3: f32[4] = aten.add.Tensor(%1, %2, 1)
//
// It stands after folding, which makes arguments equal.
#pragma once

#include "graph/graph.h"

namespace braze::passes {

// Whether the graph changed.
bool eliminate_common_subexpressions(graph::Graph& graph);

}  // namespace braze::passes
