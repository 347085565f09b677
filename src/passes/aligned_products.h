// Large products of halves on GPUs in sizes that their library multiplies fast. Rows of 50,257
// halves, as those of a vocabulary, begin between multiples of 16 bytes, and the kernels that take
// such operands have a quarter of the rate of others. Zeros at the ends of rows make them whole:
// the copies that take them fuse with what makes the operands, and that of the result, without what
// is too much, with what reads it.
//
// Needs and keeps a functional graph, and stands behind decompose, which makes products of linear
// layers, and before cse, by which products of one operand share its copy.
//
//   before                               after
//   %2: f16[2048, 50257] =               %3: f16[768, 50264] = aten.constant_pad_nd(%1, [0, 7], 0)
//     aten.mm(%0, %1)                    %4: f16[2048, 50264] = aten.mm(%0, %3)
//                                        %5: f16[2048, 50257]{50264, 1} #%4 = aten.slice.Tensor(%4,
//                                          1, 0, 50257, 1)
//                                        %6: f16[2048, 50257] = aten.clone(%5, contiguous)
#pragma once

#include "graph/graph.h"

namespace braze::passes {

// Whether the graph changed.
bool align_products(graph::Graph& graph);

}  // namespace braze::passes
