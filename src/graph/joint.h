// What a joint graph has beside the graph of a forward: inputs of kind kTangent behind all others,
// outputs of kind kGradient behind the user's.
#pragma once

#include <vector>

namespace braze::graph {

struct Joint {
  std::vector<int> tangent_of;   // by tangent: the output that it is the gradient of
  std::vector<int> gradient_of;  // by gradient: the input that it belongs to
  // The tangents of outputs that other outputs are computed from, the output that is computed last
  // first. Each has two outputs more behind the gradients: what flows to it from those others, and
  // the sum of that and the tangent, which flows on.
  std::vector<int> inner;

  // A torch.autograd.Function is part of it: how its formula depends on what it was given is known
  // to the user's code alone.
  bool has_user_functions = false;

  bool empty() const { return tangent_of.empty(); }
};

}  // namespace braze::graph
