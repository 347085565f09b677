// The nodes of results and of inputs where results depend on different inputs (backward_node.h).
#pragma once

#include <memory>

#include "dispatch/kept.h"

namespace braze::dispatch {

// Gives each result with a tangent a node of its own. `to_inputs`: by Joint::gradient_of.
void add_results_and_ports(const DifferentiatedCall& call, const std::shared_ptr<Kept>& kept,
                           const torch::autograd::edge_list& to_inputs);

}  // namespace braze::dispatch
