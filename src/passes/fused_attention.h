// Scaled dot product attention in fp32 goes to Braze's own kernel (kernels/kernels.h), which
// computes into memory of the plan and is faster than ATen's: by a third for 128 queries and keys
// of depth 64, by half where it is causal, twice as fast for one to eight queries, as where a text
// is continued word by word.
//
// Where MKL does not know the processor, for which ATen's operators multiply by MKL's kernels for
// AVX2, attention with a gradient and the gradient go there, too: of 1,500 queries and keys of
// depth 64 they take half of the time on a Zen 5 core.
//
// Needs and keeps a functional graph. Results keep their strides. Forward and backward may be
// graphs of their own, one of which is changed: what is kept is the same.
//
//   before  %3: f32[4, 12, 128, 64], %4: f32[4, 12, 128]{1536, 1, 12} =
//             aten._scaled_dot_product_flash_attention_for_cpu(%0, %1, %2, 0.0, false, None, None)
//   after   %5: f32[4, 12, 128, 64] = braze.attention(%0, %1, %2, None, false, 0.125)
//
//           the same with the logarithms of sums in use: braze.attention_with_logsumexp; and
//             aten._scaled_dot_product_flash_attention_for_cpu_backward: braze.attention_backward
//
// Left alone: other types than fp32, dropout, elements of a row that do not lie side by side, empty
// tensors, heads that are no multiple of the keys' heads, a depth that varies without a scale.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace braze::passes {

enum class FusedAttention : uint8_t { kNone, kWithoutGradient, kAll };

// Whether the graph changed.
bool use_fused_attention(graph::Graph& graph, FusedAttention which);

}  // namespace braze::passes
