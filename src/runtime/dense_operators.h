// The operators of kernels/, so that a plan calls them as any other: `torch.ops.braze`.
#pragma once

namespace braze::runtime {

// Whether this processor is one that MKL, which multiplies for ATen, knows: an Intel one.
bool mkl_knows_processor();

//   mm_pointwise(Tensor self, Tensor mat2, Tensor? bias, str activation) -> Tensor
// is activation(self @ mat2 + bias) of float32 matrices on the CPU, for an activation of "none",
// "gelu" or "gelu_tanh". With out=. Fastest where the rows of `self` and either the rows or the
// columns of `mat2` lie side by side. On processors that MKL knows, few rows are ATen's, and
// operands in another order than that of a linear layer where there is no activation.
//
// Once for a process; a call more does nothing.
void register_dense_operators();

}  // namespace braze::runtime
