// The operator of attention (kernels/kernels.h), so that a plan calls it as any other.
#pragma once

namespace braze::runtime {

//   attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal,
//             float scale) -> Tensor
// in `torch.ops.braze` is softmax(query @ key^T * scale + attn_mask) @ value as
// aten._scaled_dot_product_flash_attention_for_cpu computes it, for float32 tensors of four
// dimensions on the CPU whose last stride is 1. The mask, of two or four dimensions, is broadcast.
// With out=.
//
//   attention_with_logsumexp(the same) -> (Tensor, Tensor)
// gives for each query the logarithm of the sum of e^(scores), too.
//
//   attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out,
//                      Tensor logsumexp, Tensor? attn_mask, bool is_causal, float scale)
//     -> (Tensor, Tensor, Tensor)
// are the gradients of query, key and value, in memory for [batch, rows, heads, depth].
//
// Once for a process; a call more does nothing.
void register_attention_operator();

}  // namespace braze::runtime
