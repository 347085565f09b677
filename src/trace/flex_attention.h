// Attention whose scores a function changes and a mask hides, as an operator with a gradient:
// `torch.ops.braze`. On a GPU a compiled graph has kernels of its own in its place, without the
// matrix of scores (compile/flex_attention.h); elsewhere, and where those are not for it, PyTorch's
// operators do it, with the matrix.
#pragma once

namespace braze::trace {

//   flex_attention(Tensor query, Tensor key, Tensor value, Tensor[] tables, Tensor[] key_blocks,
//                  Tensor[] query_blocks, str program, float scale, SymInt[] block,
//                  SymInt[] strides) -> (Tensor, Tensor)
//   flex_attention_backward(Tensor tangent, Tensor offsets, Tensor query, Tensor key,
//                           Tensor value, Tensor sums, Tensor[] tables, Tensor[] key_blocks,
//                           Tensor[] query_blocks, str program, float scale, SymInt[] block)
//       -> (Tensor, Tensor, Tensor)
//
// query [B, H, Q, E], key [B, Hkv, K, E] and value [B, Hkv, K, Ev], of one dtype of halves, with
// H a multiple of Hkv, give the result [B, H, Q, Ev], of these strides, and the logarithms of the
// sums of exponentials of a row's scores [B, H, Q], in single precision, -inf where all are hidden.
//
// program: a graph (graph/graph.h) with the inputs scores [B, H, Q, K], in single precision, what
// comes for the gradient of what they become, and the tables; its outputs are what they become, the
// gradient, and, if there is a mask, where they count. key_blocks: of a BlockMask with blocks of
// `block` (queries, keys) the numbers of blocks in each row that the mask has to be asked for,
// [B or 1, H or 1, rows], their columns [B or 1, H or 1, rows, columns], and the same of whole ones
// if there are such; query_blocks: the same by columns. Where both are empty, all scores count that
// the mask lets. offsets [B, H, Q]: sums of products of tangent and result, less what comes for the
// gradient of the logarithms.
//
// No table has a gradient. The gradient has one itself, through PyTorch's operators.
void register_flex_attention_operators();  // once for a process; a call more does nothing

}  // namespace braze::trace
