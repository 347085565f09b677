// Gradients that have a history themselves (`create_graph=True`): gradient penalties, forces of a
// potential, Hessian-vector products.
//
// The forward is run again by PyTorch's operators with autograd on, from the inputs of the call,
// and differentiated by autograd itself; so the gradients depend on the inputs and on the tangents
// as eager's do, to any order.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/joint.h"
#include "passes/partition.h"
#include "pytorch/random.h"

namespace braze::dispatch {

class SecondBackward {
 public:
  // `cut`: with its histories (passes/functionalise.h). `constants`: by input of the forward.
  SecondBackward(passes::Partition cut, graph::Joint joint, std::vector<at::Tensor> constants);

  // What a call has to keep for this: inputs of the forward.
  struct Needed {
    int input = 0;
    bool before = false;  // as it is before the call writes to it
    // What it holds does not matter, as nothing that the backward keeps depends on that: it may be
    // written to.
    bool for_history = false;
  };
  const std::vector<Needed>& needed() const { return needed_; }

  // Gives what is kept, by number in `needed()`, with eager's checks: of what these tangents need
  // alone.
  using Unpack = std::function<at::Tensor(size_t)>;

  // The gradients, by Joint::gradient_of. `numbers`: all floats of the call; `drawn_from`: null
  // where nothing random is drawn. Throws what `unpack` throws, and where a torch.autograd.Function
  // of the user's is part of the forward.
  // With grad mode off they have no history, but may be asked for in batches (vmap).
  std::vector<at::Tensor> run(const Unpack& unpack, const std::vector<at::Tensor>& tangents,
                              std::span<const int64_t> symbols, std::span<const double> numbers,
                              const pytorch::GeneratorState* drawn_from) const;
  // As if the inner results (Joint::inner), in order, were inputs too: their gradients come behind
  // the others. `inner`: those that the results with a tangent are computed from.
  std::vector<at::Tensor> run_part(const Unpack& unpack, const std::vector<at::Tensor>& inner,
                                   const std::vector<at::Tensor>& tangents,
                                   std::span<const int64_t> symbols,
                                   std::span<const double> numbers,
                                   const pytorch::GeneratorState* drawn_from) const;

 private:
  std::vector<int> take_what_was_written(const std::vector<graph::Mutation>& mutations);
  std::vector<at::Tensor> aliases(const graph::Graph& forward, const Unpack& unpack,
                                  std::span<const double> numbers) const;
  std::vector<at::Tensor> gradients(const graph::Graph& forward,
                                    const std::vector<at::Tensor>& given,
                                    const std::vector<int>& leaves,
                                    const std::vector<at::Tensor>& tangents,
                                    std::span<const int64_t> symbols,
                                    const pytorch::GeneratorState* drawn_from) const;

  graph::Graph forward_;  // its outputs: those that require grad
  graph::Joint joint_;
  std::vector<at::Tensor> constants_;
  std::vector<Needed> needed_;
  std::vector<int> places_;  // of these, among the inputs of forward_
};

}  // namespace braze::dispatch
