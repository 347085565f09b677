// flex_attention by kernels of a compiled graph, so that a plan calls them as any other operator:
// `torch.ops.braze`.
#pragma once

#include <string_view>
#include <vector>

#include "plan/function.h"

namespace braze::runtime {

//   flex_attention_kernel(Tensor query, Tensor key, Tensor value, Tensor[] tables,
//                         Tensor[] key_blocks, str source, float scale, int[] strides,
//                         int[] launch) -> (Tensor, Tensor)
//   flex_attention_backward_kernel(Tensor tangent, Tensor offsets, Tensor query, Tensor key,
//                                  Tensor value, Tensor sums, Tensor[] tables,
//                                  Tensor[] key_blocks, Tensor[] query_blocks,
//                                  str query_source, str key_source, float scale,
//                                  int[] query_launch, int[] key_launch)
//       -> (Tensor, Tensor, Tensor)
//
// As trace/flex_attention.h has them, of tensors on a GPU. source: of codegen/cuda/
// flex_attention.h, with the tables that it takes; launch: rows and threads of a block, and its
// bytes of shared memory. Rows of queries, keys, values and tangents that do not lie so that they
// can be copied 16 bytes at a time are made to.
//
// The sources of a step that calls one of them; empty: it calls another operator.
std::vector<std::string_view> flex_sources(const plan::ExternStep& step);

// Once for a process; a call more does nothing.
void register_flex_attention_kernels();

}  // namespace braze::runtime
