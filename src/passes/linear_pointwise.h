// Two passes that replace ATen's fp32 matrix products, large ones above all, together with the
// activation that follows.
//
// use_panel_products: products with a large inner size go to Braze's own kernel
// (kernels/kernels.h), which computes into memory of the plan, whose threads take their parts one
// by one, and which chooses its way by the number of rows of the call. On two Zen 4 cores it takes
// 0.8 to 1.05 of oneDNN's time for many rows and 0.3 to 1.0 of it for up to 16; on Xeon cores with
// AVX-512 it takes 0.8 to 1.1 (two cores) and 0.5 to 1.15 (sixteen) of MKL's time for many rows
// against a transposed weight, while fewer than 64 stay with MKL, and so do the products of
// gradients, for which it takes 1.1 to 1.4 (one core). On processors with AVX-512 that MKL does not
// know, for which it has kernels for AVX2, small products are worth it as well: those of a Zen 5
// core, from 64x64x64 to 2048x256x256, take half of MKL's time in any order of operands, down to
// 0.9 of it for four rows.
// `braze.mm_pointwise(x, weight, bias, activation)` is activation(x @ weight + bias).
//
// use_linear_pointwise: the others go to oneDNN. On processors that are not Intel's, its product is
// 10 to 20 % faster than the one that ATen's mm and addmm call, and twice as fast where few rows
// meet a large matrix; small products lose by the cost of its call. `mkldnn._linear_pointwise(x,
// weight, bias, activation, [], variant)` is x @ weight^T + bias and takes a weight of any strides.
//
// Both need and keep a functional graph, and stand before decompose, which replaces activations.
//
//   before                                             after
//   %3: f32[768, 3072]{1, 768} = aten.t(%2)            %6: f32[3072, 768] = aten.t(%3)
//   %4: f32[512, 3072] = aten.addmm(%1, %0, %3, 1, 1)  %7: f32[512, 3072] =
//   %5: f32[512, 3072] = aten.gelu(%4, "none")           mkldnn._linear_pointwise(%0, %6, %1,
//   "gelu", ...)
//
// Of the activations only gelu is included: oneDNN's relu does not keep a NaN.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace braze::passes {

// Which products go to Braze's own kernel: none, those with a large weight, or small ones, too.
enum class PanelProducts : uint8_t { kNone, kLarge, kAll };

// Columns that take at least three quarters of the panels that they are computed in.
bool fills_panels(int64_t columns);

// Whether the graph changed.
bool use_panel_products(graph::Graph& graph, PanelProducts which);
bool use_linear_pointwise(graph::Graph& graph);

}  // namespace braze::passes
