// Convolutions with windows of one point, and their gradients, as products of matrices. oneDNN's
// are slow where MKL does not know the processor: on a Zen 5 core with AVX-512 100 GFLOP/s, where
// its convolutions with larger windows have 230 and the products of kernels/ 180 to 240; and the
// gradient of the input of a strided one 37.
//
// Of images that lie channel by channel each is a matrix [channels, points], of which no copy is
// made: `braze.bmm(weight, x)`, `braze.bmm(weight^T, dy)` and, summed over the images,
// `braze.bmm_sum(dy, x^T)` (runtime/batched_products.h). Where channels lie last all images are one
// matrix [points, channels], and aten.mm multiplies, which stands to be replaced in turn.
//
// Needs and keeps a functional graph, and stands before use_panel_products and decompose.
//
//   before                                            after
//   %2: f32[4, 128, 28, 28] = aten.convolution(       %2: f32[4, 64, 784] = aten.view(%0, ...)
//     %0, %1, None, [1, 1], [0, 0], ...)              %3: f32[4, 128, 64] = aten.expand(...%1...)
//                                                     %4: f32[4, 128, 784] = braze.bmm(%3, %2)
//                                                     %5: f32[4, 128, 28, 28] = aten.view(%4, ...)
#pragma once

#include "graph/graph.h"

namespace braze::passes {

// Of float32 on the CPU. Whether the graph changed.
bool multiply_convolutions(graph::Graph& graph);

}  // namespace braze::passes
