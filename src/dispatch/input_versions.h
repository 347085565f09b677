// Version counters (`Tensor._version`) of the tensors of the caller that a graph writes to: eager
// counts each write, compiled code may make one of many.
#pragma once

#include <c10/core/TensorImpl.h>

#include <span>
#include <vector>

#include "graph/graph.h"

namespace braze::dispatch {

struct InputWrites {
  int input;  // which input of the graph
  int count;  // how often eager writes to it and to its views
};

// Of a graph as traced.
std::vector<InputWrites> count_writes(const graph::Graph& graph);

// The inputs of such a graph that it writes to, running statistics among them.
std::vector<int> written_inputs(const graph::Graph& graph);

// Adds the writes to the counters of the inputs. Constants, which are null in `inputs`, and
// inference tensors have no counter.
void add_versions(std::span<const InputWrites> writes, c10::TensorImpl* const* inputs);

}  // namespace braze::dispatch
