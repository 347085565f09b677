// The operators of random numbers of a counter (passes/counter_random.h, passes/dropout_masks.h),
// for graphs and parts of graphs that run without kernels.
#pragma once

namespace braze::runtime {

//   random(Tensor seed, int offset, SymInt[] size, ScalarType dtype) -> Tensor
// in `torch.ops.braze` is a new, contiguous tensor on the device of `seed`, an int64 without
// dimensions: of floats in [0, 1), of int32 or int64 with any bits. Elements take the words that
// loop/random.h says, of the stream `offset`, those of 8 bytes one word of it and one of the next.
//
//   philox_state(int increment, Device device) -> Tensor
// is seed and offset of the default generator of a GPU, an int64[2] there, which it advances.
//   philox_mask(Tensor state, int first, SymInt[] size, int threshold, int threads, int pack)
// is a new, contiguous tensor of bool: where an element's word (loop::mask_word) is below
// `threshold`.
//   refuse_unaligned(Tensor[] tensors) -> ()
// is an error where one does not begin at a multiple of 16 bytes.
//
// Once for a process; a call more does nothing.
void register_random_operator();

}  // namespace braze::runtime
