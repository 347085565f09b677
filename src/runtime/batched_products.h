// Products of batches of matrices by kernels/, as operators: `torch.ops.braze`.
#pragma once

namespace braze::runtime {

//   bmm(Tensor self, Tensor mat2) -> Tensor
// is the products of [batch, rows, inner] with [batch, inner, columns].
//
//   bmm_sum(Tensor self, Tensor mat2) -> Tensor
// is the sum of these over the batch, [rows, columns], in the batch's order.
//
// Both of float32 on the CPU, with out=. A batch may be one matrix that is expanded. Fastest where
// the rows of `self` and either the rows or the columns of `mat2` lie side by side.
//
// Once for a process; a call more does nothing.
void register_batched_products();

}  // namespace braze::runtime
