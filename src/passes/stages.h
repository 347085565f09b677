// Cuts a backward into stages, each of which gives some of the gradients, for those who take these
// as they come: the buckets of DistributedDataParallel, which leave while the rest is computed, or
// an optimizer in hooks, after whose step a gradient is dropped.
//
// Needs: a functional backward (partition.h), whose nodes stand in the order in which autograd ran
// them. Guarantees: the stages, one after the other, compute what it does, each node of some weight
// once; and a gradient is not given before the last stage that reads what it is the gradient of, as
// whoever takes it may write to that.
//
//   graph(%0 a saved, %1 b saved, %2 t tangent) {    stage 0: graph(%0 b saved, %1 t tangent) {
//     %3 = aten.mm(%2, %1)                             %2 = aten.mm(%1, %0)
//     %4 = aten.mm(%3, %0)                             return %2 gradient, %2 gradient
//     return %4 gradient, %3 gradient                }
//   }                                                stage 1: graph(%0 a saved, %1 tangent) {
//                                                      %2 = aten.mm(%1, %0)
//                                                      return %2 gradient
//                                                    }
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace braze::passes {

struct BackwardStage {
  // What a tangent of the graph is: an output of an earlier stage, or, for stage -1, a tangent of
  // the whole backward.
  struct Source {
    int stage = -1;
    int index = 0;
    bool flows = true;  // made of tangents, so that it is absent where these are
  };
  graph::Graph graph;  // has an arena of its own
  // By input that is no tangent, in order: which input of the backward it is.
  std::vector<int> inputs;
  // By tangent. Those of the first stage are the backward's.
  std::vector<Source> tangents;
  // By output: which gradient of the backward. Outputs behind these are for later stages.
  std::vector<int> gradients;
};

// `gradient_of`: by gradient the input of the backward that holds what it is the gradient of, or
// -1. A stage ends where it has given this many bytes of gradients and as many are to come. Sizes
// that are symbols count by their hints. One stage: nothing is to be cut.
std::vector<BackwardStage> cut_into_stages(const graph::Graph& backward,
                                           const std::vector<int>& gradient_of, int64_t bytes);

}  // namespace braze::passes
