// Replaces composite ops by simpler ones, which loop lowering knows.
//
// Needs and keeps a functional graph. Values keep their types: sizes, strides and dtype are those
// of the op that is gone, and the numbers are eager's within rounding (each rule names eager's
// formula). f16 and bf16 are computed in f32 and rounded once, as eager does.
//
//   before                                   after
//   %1: f32[8] = aten.silu(%0)               %2: f32[8] = aten.neg(%0)
//                                            %3: f32[8] = aten.exp(%2)
//                                            %4: f32[8] = aten.add.Scalar(%3, 1.0, 1)
//                                            %5: f32[8] = aten.div.Tensor(%0, %4)
//
// Replaced are activations (gelu, silu, hardswish, ...), addcmul, addcdiv, lerp, square; layer,
// group and RMS norm, batch norm at inference, std; gradients of activations, dropout, layer and
// group norm and softmax; losses (nll, mse, huber, logits); linear; t, transpose (-> permute),
// split, unbind (-> slice, select), stack (-> cat); full_like, zeros, ... (-> full), copy, fill;
// pixel and channel shuffles, windows as columns and back; on GPUs a convolution's bias and its
// gradient. None of them has a lowering. Where the new ops give other strides a copy at the end
// gives the right ones: clone, or prims.copy_strided. Softmax, var_mean, matrix products,
// convolution, means of windows and attention stay, and so do complex numbers in strides of no
// memory format and tensors that overlap themselves.
#pragma once

#include "graph/graph.h"

namespace braze::passes {

// Whether the graph changed.
bool decompose(graph::Graph& graph);

}  // namespace braze::passes
