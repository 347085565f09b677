// Gradients that have a history themselves (`create_graph=True`): gradient penalties, forces of a
// potential, Hessian-vector products.
//
// The forward is run again with autograd on, from the inputs of the call, and differentiated by
// autograd itself; so the gradients depend on the inputs and on the tangents as eager's do, to any
// order. All that is traced once and compiled (gradient_functions.h); what cannot be is run by
// PyTorch's operators. What the gradients depend on by way of a result (exp's formula uses what exp
// gives, a later result is computed from it) they depend on by way of the user's: as in eager, its
// hooks see what flows there in the next backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fork_mutex.h"
#include "dispatch/backward.h"
#include "dispatch/gradient_functions.h"
#include "graph/graph.h"
#include "graph/joint.h"
#include "passes/partition.h"
#include "pytorch/random.h"

namespace torch::autograd {
struct Edge;
}

namespace braze::dispatch {

class SecondBackward {
 public:
  struct Differentiable {
    passes::Partition cut;  // with its histories (passes/functionalise.h)
    graph::Joint joint;
    std::vector<at::Tensor> constants;  // by input of the forward
    // Outputs of `cut.forward` that are kept for the backward and nobody else can see, with the
    // number by which a call has them.
    struct Kept {
      int output = 0;
      size_t number = 0;
    };
    std::vector<Kept> kept;
    std::vector<bool>
        uses_result;  // by tangent: whether a formula may use what it is the gradient of
  };
  SecondBackward(Differentiable forward, const Settings& settings, std::string name);

  // What a call has to keep for this: inputs of the forward.
  struct Needed {
    int input = 0;
    bool before = false;  // as it is before the call writes to it
    // What it holds does not matter, as nothing that the backward keeps depends on that: it may be
    // written to.
    bool for_history = false;
  };
  const std::vector<Needed>& needed() const { return needed_; }
  // Whether a call has to keep the result with this tangent.
  bool uses_result(size_t tangent) const { return uses_result_[tangent]; }

  using Unpack = std::function<at::Tensor(size_t)>;
  struct Call {
    // Gives what is kept, by number in `needed()`, with eager's checks: of what these tangents
    // need alone.
    Unpack unpack;
    Unpack unpack_kept;  // by Kept::number
    std::span<const int64_t> symbols;
    std::span<const double> numbers;                            // all floats of the call
    std::shared_ptr<const pytorch::GeneratorState> drawn_from;  // null: nothing random is drawn
    // Of the result with a tangent: where its gradient flows to, and the result, undefined if it is
    // not kept.
    std::function<torch::autograd::Edge(size_t)> edge_of_result;
    Unpack unpack_result;
  };

  // The gradients, by Joint::gradient_of; one that is not `wanted` may be undefined. Throws what
  // `unpack` throws, and where a torch.autograd.Function of the user's is part of the forward. With
  // grad mode off they have no history, but may be asked for in batches (vmap).
  std::vector<at::Tensor> run(const Call& call, const std::vector<at::Tensor>& tangents,
                              const Wanted& wanted);
  // As if the inner results (Joint::inner), in order, were inputs too: their gradients come behind
  // the others. `inner`: those that the results with a tangent are computed from.
  std::vector<at::Tensor> run_part(const Call& call, const std::vector<at::Tensor>& inner,
                                   const std::vector<at::Tensor>& tangents, const Wanted& wanted);

 private:
  // What of the forward is differentiated where these tangents are there.
  struct Part {
    // Of which there is one part each.
    struct Key {
      bool has_inner = false;   // inner results are inputs, behind all others
      std::vector<bool> asked;  // by tangent
      Wanted wanted;
      bool operator==(const Key&) const = default;
    } key;
    std::unique_ptr<GradientFunctions> functions;
  };

  std::vector<int> take_what_was_written(const std::vector<graph::Mutation>& mutations);
  std::shared_ptr<Part> part_for(const std::vector<at::Tensor>& tangents, bool has_inner,
                                 const Wanted& wanted);
  std::shared_ptr<Part> make_part(Part::Key key) const;
  std::vector<at::Tensor> run(const Call& call, const Part& part,
                              const std::vector<at::Tensor>& inner,
                              const std::vector<at::Tensor>& tangents) const;

  graph::Graph forward_;  // its outputs: those that require grad
  graph::Joint joint_;
  std::vector<at::Tensor> constants_;
  std::vector<GradientFunctions::Forward::Kept> kept_;
  std::vector<bool> uses_result_;
  std::vector<Needed> needed_;
  std::vector<int> places_;  // of these, among the inputs of forward_
  const Settings settings_;
  const std::string name_;
  ForkMutex mutex_;  // guards what follows
  std::vector<std::shared_ptr<Part>> parts_;
};

}  // namespace braze::dispatch
