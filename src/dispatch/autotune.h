// Kernels of a GPU tried in place, for mode="max-autotune".
#pragma once

#include "compile/candidates.h"
#include "graph/types.h"

namespace braze::dispatch {

// Runs the candidates of each kernel on the device, over memory of its own that holds zeros, on the
// current stream, and takes another way than the first only where that is faster beyond doubt. It
// stops after some seconds; kernels that it has not come to, and all of them where the stream is
// recorded or there is no memory, keep their first way.
compile::Tuner tuner(graph::Device device);

}  // namespace braze::dispatch
