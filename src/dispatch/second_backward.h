// Gradients that have a history themselves (`create_graph=True`): gradient penalties, forces of a
// potential, Hessian-vector products.
//
// The forward is run again by PyTorch's operators with autograd on, from the inputs of the call,
// and differentiated by autograd itself; so the gradients depend on the inputs and on the tangents
// as eager's do, to any order.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/joint.h"
#include "pytorch/random.h"

namespace braze::dispatch {

class SecondBackward {
 public:
  // `forward`: functional, its first outputs the user's. `constants`: by input.
  SecondBackward(graph::Graph forward, graph::Joint joint, std::vector<at::Tensor> constants);

  // The inputs that a call has to keep for this.
  const std::vector<int>& needed() const { return needed_; }

  // The gradients, by Joint::gradient_of. `inputs`: those that are needed, in order; `numbers`: all
  // floats of the call; `drawn_from`: null where nothing random is drawn. Throws where a
  // torch.autograd.Function of the user's is part of the forward, or it writes to what it needs.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs,
                              const std::vector<at::Tensor>& tangents,
                              std::span<const int64_t> symbols, std::span<const double> numbers,
                              const pytorch::GeneratorState* drawn_from) const;
  // As if the inner results (Joint::inner), in order, were inputs too: their gradients come behind
  // the others. `inner`: those that the results with a tangent are computed from.
  std::vector<at::Tensor> run_part(const std::vector<at::Tensor>& inputs,
                                   const std::vector<at::Tensor>& inner,
                                   const std::vector<at::Tensor>& tangents,
                                   std::span<const int64_t> symbols,
                                   std::span<const double> numbers,
                                   const pytorch::GeneratorState* drawn_from) const;

 private:
  std::vector<int> take_what_was_written(const std::vector<graph::Mutation>& mutations);
  std::vector<at::Tensor> aliases(const std::vector<at::Tensor>& inputs,
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
  std::vector<int> needed_;
  std::vector<int> places_;  // of these, among the inputs of forward_
  bool writes_what_it_needs_ = false;
};

}  // namespace braze::dispatch
