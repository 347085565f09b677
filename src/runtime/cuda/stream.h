// PyTorch's streams, through its device-neutral interface.
#pragma once

#include <c10/core/Device.h>

namespace braze::runtime::cuda {

// The user's current stream of the device, a CUstream. Work on it may be recorded by a CUDA graph.
void* current_stream(c10::Device device);

}  // namespace braze::runtime::cuda
