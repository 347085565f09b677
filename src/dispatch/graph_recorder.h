// Who records CUDA graphs for the run time (runtime/cuda/recording.h): PyTorch's class, by way of
// python/braze/_cuda_graphs.py.
#pragma once

#include "cpython/ref.h"

namespace braze::dispatch {

// Adds `record_cuda_graphs(begin)`, which installs the recorder. begin(device): an object
// with the methods finish, abandon and replay, or None.
bool initialize_graph_recorder(PyObject* module);

}  // namespace braze::dispatch
