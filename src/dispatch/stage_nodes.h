// The nodes of a backward in stages (staged_backward.h). The last node of a call's chain
// (backward_node.h) runs the first stage, and each other stage has a node of its own, which takes
// what the stages before hand on and gives its gradients:
//
//     last node -> stage 1 -> stage 2           and from each of them to the inputs
//
// The engine accumulates a gradient that has come, which calls the hooks of its parameter, before
// it turns to the next stage. Where the backward does not run in stages, it hands nothing on, and
// the nodes of stages give nothing.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <memory>

#include "dispatch/kept.h"

namespace braze::dispatch {

// Whether somebody takes a gradient as it comes.
bool is_awaited(const torch::autograd::edge_list& to_inputs);

// Makes the nodes of all stages but the first, and gives the edges to them that stand behind those
// to inputs.
torch::autograd::edge_list add_stages(const DifferentiatedCall& call,
                                      const std::shared_ptr<Kept>& kept,
                                      const torch::autograd::edge_list& to_inputs);

}  // namespace braze::dispatch
