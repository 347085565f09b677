// The operator of random numbers of a counter (passes/counter_random.h), for graphs and parts of
// graphs that run without kernels.
#pragma once

namespace braze::runtime {

//   random(Tensor seed, int offset, SymInt[] size, ScalarType dtype) -> Tensor
// in `torch.ops.braze` is a new, contiguous tensor on the device of `seed`, an int64 without
// dimensions: of floats in [0, 1), of int32 or int64 with any bits. Elements take the words that
// loop/random.h says, of the stream `offset`, those of 8 bytes one word of it and one of the next.
//
// Once for a process; a call more does nothing.
void register_random_operator();

}  // namespace braze::runtime
