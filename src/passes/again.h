// What a backward may make again of what the forward has computed, instead of keeping it: questions
// that partition.h, whose backward is a graph of its own, and rematerialise.h, which has both in
// one, answer in the same way.
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "graph/graph.h"

namespace braze::passes {

// Whether the user can see more of the node than its results, or it can end the call.
bool is_seen(const graph::Node& node);

// Costs nothing to do again: a view, or what is made without any tensor.
bool is_free(const graph::Node& node);

// Pointwise, with one result.
bool is_cheap(const graph::Node& node);

// By value: what is made of random numbers of a counter and of nothing else than that and
// constants: the seed is all that it takes to make them again.
std::vector<bool> made_of_seeds(const graph::Graph& graph);

// Of the nodes that torch.utils.checkpoint wraps those that are made again: what such a call
// computes for itself, not what it gives to the rest of the forward, from which the next of them
// begins. `visible`: storages that the user sees.
std::set<const graph::Node*> checkpointed(
    const graph::Graph& graph, const std::set<int>& visible,
    const std::function<bool(const graph::Node&)>& is_in_forward);

// Of which a value that is made again may be made, at most.
inline constexpr size_t kMostAgain = 16;

}  // namespace braze::passes
