// PyTorch's default random generator of a GPU.
#pragma once

#include <ATen/core/Tensor.h>

namespace braze::runtime::cuda {

// Whether advance_generator can do its work in this process.
bool knows_generator();

// Seed and offset of the device's default generator as an int64[2] on it, put there by the current
// stream, and the generator advanced by `increment` numbers a thread, a multiple of 4, as PyTorch's
// kernels do. While the stream is recorded the values are those of each replay. NotImplementedError
// where there is no such generator.
at::Tensor advance_generator(int64_t increment, at::Device device);

}  // namespace braze::runtime::cuda
