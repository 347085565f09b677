// Cuts a joint graph into the forward, which runs when the user calls, and the backward, which runs
// when autograd asks for gradients.
//
// Needs: a functional joint graph: inputs of kind kTangent, outputs of kind kGradient. Guarantees:
// the forward followed by the backward computes what the joint graph does; the forward does all
// that the user can see of a call (results, writes to inputs, random numbers, refusals of data).
//
//   graph(%0 x: f32[8], %1 t: f32[8] tangent) {        forward: graph(%0 x: f32[8]) {
//     %2 = aten.exp(%0)                                    %1 = aten.exp(%0)
//     %3 = aten.view(%2, [2, 4])                           return %1, %1 saved
//     %4 = aten.mul.Tensor(%1, %2)                       }
//     return %2, %4 gradient                             backward: graph(%0 saved, %1 t tangent) {
//   }                                                      %2 = aten.mul.Tensor(%1, %0)
//                                                          return %2 gradient
//                                                        }
// What the backward needs and the forward computes anyway is kept for it, as in eager. Some of it
// is made again in the backward instead: views of what is kept, tensors that are made of nothing
// (zeros), what a checkpointed call (graph::Origin) computes for itself, what is made of nothing
// but random numbers of a counter (counter_random.h), such as a dropout's mask, of which the seed
// is kept, and what a few pointwise operators or a layer norm make of what is kept anyway, such as
// an activation of its argument: less is held from one to the other then, and the kernel that reads
// it makes it on the way. Results that the user gets are kept, so that a change of theirs is
// noticed. What only the backward needs is computed there.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace braze::passes {

struct Partition {
  graph::Graph forward;   // its outputs: the user's, and behind these what is kept
  graph::Graph backward;  // has an arena of its own; its symbols come as scalars
  // What an input of the backward is.
  struct BackwardInput {
    enum class Kind : uint8_t {
      kInput,    // input `index` of the forward, as that leaves it
      kOutput,   // output `index` of the forward
      kTangent,  // tangent `index`
    };
    Kind kind = Kind::kInput;
    int index = 0;
  };
  std::vector<BackwardInput> backward_inputs;  // in order
};

struct PartitionOptions {
  // The most bytes that the backward may hold at a time, beside inputs and gradients
  // (activation_budget.h); more is made again then. None: no bound.
  std::optional<int64_t> activation_memory;
  // Values that depend on no tangent and are computed in the forward, even where only the backward
  // needs them.
  std::vector<graph::Value*> early;
};

// Adds nodes to `joint` that nothing in it uses.
Partition partition(graph::Graph& joint, const PartitionOptions& options = {});

}  // namespace braze::passes
