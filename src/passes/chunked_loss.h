// The cross entropy of a product with a large vocabulary, by chunks of rows: neither all logits nor
// all of their gradient are there at once.
//
// Needs and keeps a functional graph with the backward in it. Stands before what replaces products
// and before decompose, and, where forward and backward become functions of their own, before
// partition. Guarantees: the same results, up to the rounding of sums over the rows, which are
// added up chunk by chunk.
//
// Before, of the mean over 512 rows:
//   %4: f32[512, 50257] = aten.mm(%0, %3)
//   %5: f32[512, 50257] = aten._log_softmax(%4, 1, false)
//   %6: f32[], %7: f32[] = aten.nll_loss_forward(%5, %2, None, 1, -100)
//   %9: f32[512, 50257] = aten.nll_loss_backward(%8, %5, %2, None, 1, -100, %7)
//   %10: f32[512, 50257] = aten._log_softmax_backward_data(%9, %5, 1, f32)
//   %11: f32[50257, 512] = aten.t(%10)
//   %12: f32[50257, 768] = aten.mm(%11, %0)
//   %13: f32[512, 768] = aten.mm(%10, %1)
// After, the second of two chunks, with the total %7 made of the labels alone:
//   %24: f32[256, 768] = aten.slice.Tensor(%0, 0, 256, 512, 1)
//   %25: f32[256, 50257] = aten.mm(%24, %3)
//   %26: f32[256, 50257] = aten._log_softmax(%25, 1, false)
//   %27: i64[256] = aten.slice.Tensor(%2, 0, 256, 512, 1)
//   %28: f32[256], %29: f32[] = aten.nll_loss_forward(%26, %27, None, 0, -100)
//   %30: f32[] = aten.sum(%28, None)            // and the sum of the first added, divided by %7
//   %31: f32[256, 50257] = aten.nll_loss_backward(%8, %26, %27, None, 1, -100, %7)
//   %32: f32[256, 50257] = aten._log_softmax_backward_data(%31, %26, 1, f32)
//   %33: f32[50257, 256] = aten.t(%32)
//   %34: f32[50257, 768] = aten.addmm(%20, %33, %24, 1, 1)    // %20: that of the first
//   %35: f32[256, 768] = aten.mm(%32, %1)                     // and aten.cat with the first
//
// Between the product and the loss may stand views that keep the rows, conversions and pointwise
// operators. Anything else that reads the logits, a second loss of them, a loss for each row, sizes
// that are symbols and tensors of a GPU leave all as it is.
//
// The gradient that comes to the loss is taken as it is where it is known beforehand: in a whole
// step, where it is made of numbers. Where it depends on a tangent or on the loss itself, gradients
// are made for a one in its place, and multiplied by it where they are used. A forward that is a
// function of its own keeps them for the backward, so they have to be much smaller than the logits.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace braze::passes {

// Whether the graph changed.
bool chunk_losses(graph::Graph& graph);

// Of a joint graph: what its forward has to make, so that the backward need not have the logits.
std::vector<graph::Value*> chunk_losses_of_joint(graph::Graph& joint);

}  // namespace braze::passes
