// Random graphs, and the comparison of a graph before and after a pass by the reference
// interpreter: outputs, contents of inputs, and which outputs and inputs share memory.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/interpreter/interpreter.h"

namespace braze::passes::fuzz {

// A valid graph of about `nodes` nodes; with `mutate` some of them write in place, also through
// views and to inputs.
graph::Graph random_graph(unsigned seed, int nodes, bool mutate);

// Values for the inputs of a graph, the same for the same seed.
std::vector<graph::Tensor> random_inputs(const graph::Graph& graph, unsigned seed);

using PassFunction = bool (*)(graph::Graph&);

// Empty: the pass keeps what the graph computes, is idempotent and says truly whether it changed
// something. Otherwise what is wrong, with the smallest graph found for it. A graph that the pass
// refuses (Unsupported) counts as right.
std::string check_pass(graph::Graph graph, PassFunction pass, unsigned seed,
                       bool idempotent = true);

}  // namespace braze::passes::fuzz
