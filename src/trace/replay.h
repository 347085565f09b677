// Runs a graph op by op, with PyTorch's operators: on the dispatch keys of the caller, so that
// autograd records it where it is on.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace braze::trace {

// The outputs. `inputs`: by graph input, undefined where nothing uses it; `symbols`: the values of
// the graph's symbols. `check`: metadata must be that of the graph, a c10::Error else; what
// operators throw, besides.
std::vector<at::Tensor> replay(const graph::Graph& graph, std::span<const at::Tensor> inputs,
                               std::span<const int64_t> symbols, bool check);

}  // namespace braze::trace
