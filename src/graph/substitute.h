// The static graph that a symbolic one is for given values of its symbols.
#pragma once

#include <span>

#include "graph/graph.h"

namespace braze::graph {

// A copy with the same ids, storages and origins in which every expression is a number: sizes,
// strides, offsets and integer arguments. values[i] is the value of symbol i; that it satisfies
// what the graph's guards asked for is the caller's business. The graph's arena is only read, so
// threads may substitute in one graph at the same time.
//
//   graph(s0 = size(%0, 0) hint 8, %0 x: f32[s0]) { %1: f32[s0, 1] = aten.view(%0, [s0, 1]) ... }
//   with {5}:  graph(%0 x: f32[5]) { %1: f32[5, 1] = aten.view(%0, [5, 1]) ... }
Graph substitute(const Graph& graph, std::span<const int64_t> values);

// Moves the graph's expressions into an arena of its own, with the same symbols, so that it may be
// compiled on another thread than the graphs that it has shared the arena with. Until then these
// may not be compiled.
void take_own_arena(Graph& graph);

}  // namespace braze::graph
