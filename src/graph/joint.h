// What a joint graph has beside the graph of a forward: inputs of kind kTangent behind all others,
// outputs of kind kGradient behind the user's.
#pragma once

#include <vector>

namespace braze::graph {

struct Joint {
  std::vector<int> tangent_of;   // by tangent: the output that it is the gradient of
  std::vector<int> gradient_of;  // by gradient: the input that it belongs to

  bool empty() const { return tangent_of.empty(); }
};

}  // namespace braze::graph
