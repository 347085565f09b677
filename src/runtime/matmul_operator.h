// Matrix products on GPUs, so that a plan calls them as any other operator: `torch.ops.braze`.
#pragma once

namespace braze::runtime {

//   cublaslt_matmul(Tensor self, Tensor mat2, Tensor? bias) -> Tensor
// is self @ mat2 + bias of two matrices, or self @ mat2 of two batches of them, as many in each:
// float32, float16 or bfloat16, all of one. bias: a number for each column. With out=, whose rows
// may lie apart.
//
// On a GPU it is cuBLASLt's product under the settings that hold for ATen's at the call (TF32,
// reduced precision). Where cuBLASLt has none, or determinism or sums in half precision are asked
// for, and on CPUs, it is ATen's. Errors are those of ATen's mm, addmm and bmm.
//
// Once for a process; a call more does nothing.
void register_matmul_operator();

}  // namespace braze::runtime
