// What a backward makes again so that what it holds of activations stays within a number of bytes:
// `options={"activation_memory": ...}`. partition.h, whose backward is a graph of its own, and
// rematerialise.h, which has both in one, ask it in the same way.
//
// What is kept is a minimum cut between what the forward can compute and what the backward needs: a
// value that is cut is kept and costs its bytes, a node behind the cut is done again and costs its
// time. The exchange rate between the two is swept, which gives a family of cuts from eager's to
// the least; of these the fastest is taken whose peak is within the budget, or the one of the least
// peak where none is. The family does not depend on the budget, so that a smaller one never gives a
// higher peak. Of equal layers the first ones are made again first: their turn comes when little
// else is held any more.
//
// Sources: the cut is that of PyTorch's min-cut partitioner (H. He, "Min-cut optimal recomputation
// with AOTAutograd", 2022), which cuts by bytes alone; the sweep is Lagrangian relaxation of the
// knapsack by time.
#pragma once

#include <cstdint>
#include <functional>
#include <set>

#include "graph/graph.h"

namespace braze::passes {

// A graph in which a backward follows its forward.
struct Passage {
  const graph::Graph& graph;
  // Computed by the forward; of other nodes each is the backward's.
  std::function<bool(const graph::Node&)> is_forward;
  // Of the forward's nodes those that the backward makes again in any case, and keeps nothing of.
  std::function<bool(const graph::Node&)> is_again;
  // What the backward takes in place of the value (most often the value).
  std::function<const graph::Value*(const graph::Value*)> chosen;
  std::set<int>
      visible;  // storages that the user sees: they cost nothing, and are never made again
  std::set<int> written;  // storages of inputs of which keeping what they hold takes a copy
};

// The nodes that are made again beside those of `is_again`. `bytes` is what the backward may hold
// at a time of the forward's results, of what it makes again and of its own results, without inputs
// and gradients. Sizes that are symbols count by their hints.
std::set<const graph::Node*> made_again_within(int64_t bytes, const Passage& passage);

}  // namespace braze::passes
