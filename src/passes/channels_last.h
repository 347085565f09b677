// Channels innermost ("channels last", NHWC) for the convolutions of a graph, and for what stands
// between them. The tensor cores of a GPU take operands in that order alone: cuDNN turns others
// before each convolution, and the result after it.
//
// Needs and keeps a functional graph. Stands before decompose, while norms and pooling are one
// operator each, and, where forward and backward become functions of their own, before partition,
// so that what is kept for the backward is kept as it lies. Guarantees: the same results; what is
// returned, saved to inputs or handed to an operator that looks at strides has the strides that it
// had.
//
// before                                      after
//   %3: f16[8, 64, 9, 9] = aten.convolution(    %4 = aten.clone(%0, channels_last)
//     %0, %1, ...)                              %5 = aten.clone(%1, channels_last)
//   %4: f16[8, 64, 9, 9] = aten.relu(%3)        %6: f16[8, 64, 9, 9]{5184, 1, 576, 64} =
//   %5: f16[8, 64, 9, 9] = aten.convolution(      aten.convolution(%4, %5, ...)
//     %4, %2, ...)                              %7: f16[8, 64, 9, 9]{5184, 1, 576, 64} =
//   return %5                                     aten.relu(%6)
//                                               %8 = aten.clone(%2, channels_last)
//                                               %9: f16[8, 64, 9, 9]{5184, 1, 576, 64} =
//                                                 aten.convolution(%7, %8, ...)
//                                               %10 = aten.clone(%9, contiguous)
//                                               return %10
//
// Convolutions of two dimensions are changed, transposed ones and the gradients of both too. What
// reads such a result and works in any layout goes on in it, with metadata inferred anew: pointwise
// operators, norms, pooling, resampling, concatenation, reductions, products, and views that the
// layout has. What draws random numbers keeps its operands, since the numbers go by their order.
//
// Whether it pays is asked of the whole graph, by the bytes that are copied and by those that the
// library need not turn any more (after `decide_layout_opt` of TorchInductor, torch/_inductor/
// graph.py, which counts operations). Convolutions of groups with several channels stay as they
// are, as there.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace braze::passes {

// Which convolutions.
enum class ChannelsLast : uint8_t {
  kNone,
  kHalves,  // of float16 and bfloat16, where it pays
  kAll,     // of float32 too, and whether it pays or not
};

// Whether the graph changed.
bool use_channels_last(graph::Graph& graph, ChannelsLast which);

}  // namespace braze::passes
