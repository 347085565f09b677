// The nodes of autograd that stand for one call of compiled code.
//
// One node takes the tangents of all results and gives the gradients of all inputs. Results that
// other results are computed from (the logits beside the loss, hidden states) have nodes of their
// own, as in eager: whoever asks for their gradient, or hooks into it, is to see all that flows to
// them. The nodes form a chain, the one of the other results first:
//
//     others -> inner 1 -> ... -> inner m        and from each of them to the inputs
//
// As long as nobody looks, the tangents are handed along the chain, and the last node runs the one
// backward of the whole call. Where somebody does, each node runs its part.
//
// Several results that no other is computed from have nodes of their own, too, and so have results
// that depend on different inputs: hooks of a result that is not used, or of an input that only
// such a one depends on, are not to be called. Behind them stand ports, one for all inputs that the
// same results depend on, the first of which runs the one backward of all tangents that have come:
//
//     result 1 -> ports 1, 2      result 2 -> ports 2, 3      port 1 -> inputs a, b
//
// Where gradients are taken as they come (hooks behind their accumulation), and there are no ports,
// the last node of the chain runs a part of the backward alone, and nodes behind it the rest
// (stage_nodes.h).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/fork_mutex.h"
#include "dispatch/backward.h"
#include "dispatch/second_backward.h"
#include "graph/joint.h"
#include "pytorch/random.h"

namespace braze::dispatch {

class StagedBackward;

// What is made of a joint graph once, for all calls.
struct Differentiated {
  Differentiated();
  ~Differentiated();
  graph::Joint joint;
  std::unique_ptr<Backward> whole;
  // The backward in parts: each tangent is all that flows to its result, and the outputs are the
  // gradients and, behind them, what flows to the inner results. Null if there are no inner
  // results.
  std::unique_ptr<Backward> parts;
  std::unique_ptr<SecondBackward> second;
  // By port, its gradients; empty: there are none, and results are in a chain.
  std::vector<std::vector<int>> ports;
  // By tangent, the ports that it reaches.
  std::vector<std::vector<int>> reached;
  // The inner results, by number in joint.inner, that the result is computed from.
  std::vector<std::vector<int>> inner_of;
  int64_t stage_bytes = 0;  // see Settings

  // The whole backward in stages, cut when it is first asked for; null: there is one stage.
  const StagedBackward* stages();
  const StagedBackward* stages_if_cut();  // null also before that

 private:
  ForkMutex mutex_;
  bool is_cut_ = false;
  std::unique_ptr<StagedBackward> stages_;
};

// A call, as its nodes get it. All tensors that it takes are kept with eager's checks.
struct DifferentiatedCall {
  std::shared_ptr<Differentiated> code;
  c10::TensorImpl* const* inputs;
  std::vector<at::Tensor>& outputs;     // the user's; those with a tangent get their history
  const std::vector<at::Tensor>& kept;  // what the forward gives for the backward
  std::span<const int64_t> symbols;
  std::span<const double> numbers;  // all floats of the call
  std::shared_ptr<const pytorch::GeneratorState> drawn_from;
};

void give_history(const DifferentiatedCall& call);

}  // namespace braze::dispatch
