// Folding: removes ops that change nothing, and computes those on tensors that one number fills.
//
// Needs and keeps a functional graph. Only what is exact for every value of the dtype is folded,
// and only where outputs keep memory of their own (aliasing.h).
//
//   before                                             after
//   %1: f32[4] = aten.mul.Tensor(%0, 1)                %5: f32[4] = aten.full([4], 3, f32, ...)
//   %2: f32[4] = aten.clone(%1, None)                  %6: f32[4] = aten.add.Tensor(%0, %5, 1)
//   %3: f32[4] = aten.full([4], 1, f32, ...)
//   %4: f32[4] = aten.add.Tensor(%3, 2, 1)
//   %6: f32[4] = aten.add.Tensor(%2, %4, 1)
//
// * views that change nothing, views of views, permutations of permutations;
// * clone and _to_copy to the same dtype and strides;
// * x * 1, x / 1, x ** 1, x - 0, for integers x + 0;
// * elementwise arithmetic on, and views of, tensors filled with one number (exact ops only).
#pragma once

#include "graph/graph.h"

namespace braze::passes {

// Whether the graph changed.
bool fold(graph::Graph& graph);

}  // namespace braze::passes
