// What reads or writes a few elements of each row, or a few rows, of a large tensor.
#pragma once

#include "graph/graph.h"

namespace braze::passes {

// Rewrites these patterns so that nothing else as large is made for them:
// * A logarithm of a softmax that a loss picks classes from becomes a difference to two numbers of
//   each row, which the loss's decomposition takes for the elements that it picks alone.
// * On a CPU, `a + embedding_dense_backward(grad, indices, ...)` adds the rows of `grad` to those
//   of `a`. Rows that the operator skips are added as -0, which changes nothing. (For GPUs
//   PyTorch's operator sorts the indices.)
bool touch_few_rows(graph::Graph& graph);

}  // namespace braze::passes
