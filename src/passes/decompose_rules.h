// The rules of the decomposition, by family.
#pragma once

#include <vector>

#include "graph/emitter.h"

namespace braze::passes {

// Values that stand for the results of a node, null for results that are not made (they must be
// unused). Empty: no rule for the node, which stays.
using Replacement = std::vector<graph::Value*>;

Replacement decompose_activation(graph::Emitter& emit, const graph::Node& node);
Replacement decompose_backward(graph::Emitter& emit, const graph::Node& node);
Replacement decompose_indexing(graph::Emitter& emit, const graph::Node& node);
Replacement decompose_norm(graph::Emitter& emit, const graph::Node& node);
Replacement decompose_shape(graph::Emitter& emit, const graph::Node& node);

}  // namespace braze::passes
