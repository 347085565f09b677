// Values of a joint graph that its backward can make of less than themselves.
#pragma once

#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace braze::passes {

struct Otherwise {
  const graph::Value* value;               // the same, to be made in the backward
  std::vector<const graph::Value*> taken;  // pays where the backward takes all of these anyway
  std::vector<const graph::Value*> kept;   // what the forward has to keep for it
};

using MadeOtherwise = std::unordered_map<const graph::Value*, Otherwise>;

// Adds the nodes that make them, which nothing uses yet:
// * the result of a layer norm, of its argument and its statistics;
// * what is a conversion of halves, of the halves. Memory that the user sees may change before the
//   backward, so that a copy of it is kept, which is still half as large;
// * logarithms of a softmax that a loss picks classes from, of its argument and two numbers of each
//   row. The node itself is replaced by operators that compute these.
MadeOtherwise made_otherwise(graph::Graph& joint);

}  // namespace braze::passes
