// Matrix products on GPUs go to `braze.cublaslt_matmul` (runtime/matmul_operator.h), whose calls
// cost the CPU a fraction of what those of ATen's operators do.
//
// Products of halves whose rows begin between multiples of 16 bytes, as those of a vocabulary of
// 50,257 words do, are several times slower in the library. Where a product is large, such operands
// are copied to rows further apart, which fuses with what makes them, and so is such a result to
// the layout that it has in eager, which fuses with what reads it.
//
// Needs and keeps a functional graph, and stands behind decompose, which makes products of linear
// layers, and before cse, by which products of one operand share its copy.
//
//   before                                    after
//   %2: f16[2048, 50257] = aten.mm(%0, %1)    %3: f16[2048, 50257]{50264, 1} =
//                                               braze.cublaslt_matmul(%0, %1, None)
//                                             %4: f16[2048, 50257] = aten.clone(%3, contiguous)
#pragma once

#include "graph/graph.h"

namespace braze::passes {

// Whether the graph changed.
bool use_cublaslt(graph::Graph& graph);

}  // namespace braze::passes
