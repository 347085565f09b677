// What reads or writes a few elements of each row, or a few rows, of a large tensor.
#pragma once

#include <optional>

#include "graph/emitter.h"
#include "graph/graph.h"

namespace braze::passes {

// x - max - log(sum(exp(x - max))) of each row, and the two numbers of the row, [n, 1].
struct ClassLogarithms {
  graph::Value *result, *max, *log_sum;
};

// That of a logarithm of a softmax that a loss picks classes from, in front of `emit`'s node.
// Nothing: it is none, or of halves or of another form.
std::optional<ClassLogarithms> logarithms_of_classes(graph::Emitter& emit, const graph::Node& node);

// Rewrites these patterns so that nothing else as large is made for them:
// * A logarithm of a softmax that a loss picks classes from becomes a difference to two numbers of
//   each row, which the loss's decomposition takes for the elements that it picks alone.
// * On a CPU, `a + embedding_dense_backward(grad, indices, ...)` adds the rows of `grad` to those
//   of `a`. Rows that the operator skips are added as -0, which changes nothing. (For GPUs
//   PyTorch's operator sorts the indices.)
bool touch_few_rows(graph::Graph& graph);

}  // namespace braze::passes
