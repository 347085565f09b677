// Rows that are added up by place on a GPU, as sums in a fixed order: the gradients of tables and
// of indexed tensors, and sums into the rows of others.
//
// PyTorch's operators sort the indices for them, or leave the order to chance. `braze.sum_by_place(
// source, place, dim, rows, skipped, checked, base)` (runtime/cuda/place_sums.h) makes a list for
// each row instead.
//
//   before                                              after
//   %2: f32[9, 4] = aten.embedding_dense_backward(      %2: i64[6] = aten.view(%1, [6])
//       %0, %1, 9, -1, false)                           %3: f32[6, 4] = aten.view(%0, [6, 4])
//                                                       %4: f32[9, 4] = braze.sum_by_place(%3,
//                                                           %2, 0, 9, -1, false, None)
//
// Needs and keeps a functional, decomposed graph. It writes embedding_dense_backward that does not
// scale by frequency, index_put that accumulates by indices that stand side by side, and index_add
// of what is in memory and large; a kernel makes what else it adds as it goes.
#pragma once

#include "graph/graph.h"

namespace braze::passes {

// Whether the graph changed.
bool use_place_sums(graph::Graph& graph);

}  // namespace braze::passes
