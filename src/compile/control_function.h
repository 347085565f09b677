// From a graph that reads numbers from data, or has control flow, to a function of control steps.
#pragma once

#include <functional>

#include "graph/stages.h"
#include "plan/function.h"

namespace braze::compile {

// Cuts the graph (graph/stages.h). `add` makes a function of a part and gives its number; parts are
// added in the order of their calls.
plan::Function control_function(const graph::Graph& graph, const graph::DataSymbols& data,
                                const std::function<int32_t(graph::Graph)>& add);

}  // namespace braze::compile
