// Convolutions with windows of one point, and their gradients, as products of matrices, where MKL
// does not know the processor. On Zen 5 cores with AVX-512 PyTorch's have 100 GFLOP/s with one
// thread and few images, which MKL multiplies, by its kernels for AVX2, and 190 to 390 with two, by
// oneDNN (of large images with few channels 40, and gradients of inputs of strided ones 37 to 80);
// the products of kernels/ have 180 to 240 for each thread.
//
// Of images that lie channel by channel each is a matrix [channels, points], of which no copy is
// made: `braze.bmm(weight, x)`, `braze.bmm(weight^T, dy)` and, summed over the images,
// `braze.bmm_sum(dy, x^T)` (runtime/batched_products.h); the gradient of small images is one
// product that takes the weight as it lies. Where channels lie last all images are one matrix
// [points, channels], and aten.mm multiplies, which stands to be replaced in turn.
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
