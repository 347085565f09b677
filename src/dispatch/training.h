// Results that require grad: a node of autograd for each call, whose backward is compiled as well.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dispatch/settings.h"
#include "graph/graph.h"
#include "graph/joint.h"
#include "pytorch/random.h"

namespace braze::dispatch {

struct Differentiated;

class Training {
 public:
  // Cuts a joint graph; `graph` becomes the forward. Throws passes::Unsupported, the graph
  // unchanged, where there is no cut. `complete`: the same graph, where inputs of `graph` behind
  // all of its own stand for what it computes itself, so that gradients of gradients do not end
  // there; null where there are none such.
  ~Training();
  static std::unique_ptr<Training> make(graph::Graph& graph, const graph::Joint& joint,
                                        const Settings& settings,
                                        const std::vector<at::Tensor>& constants,
                                        const std::string& name,
                                        const graph::Graph* complete = nullptr);

  // Takes what the forward gives for the backward from the end of its outputs.
  std::vector<at::Tensor> take_kept(std::vector<at::Tensor>& outputs) const;

  // Gives the results of a call that require grad their history: a node, which leads on to those of
  // the inputs, and one more for each result that others are computed from. `kept`: as taken;
  // `symbols`, `numbers`: of the call; `drawn_from`: the state of the random generator before the
  // call, where `draws()`.
  void give_history(c10::TensorImpl* const* inputs, std::vector<at::Tensor>& outputs,
                    std::vector<at::Tensor> kept, std::span<const int64_t> symbols,
                    std::span<const double> numbers,
                    std::shared_ptr<const pytorch::GeneratorState> drawn_from) const;
  bool draws() const { return draws_; }
  int gpu() const { return gpu_; }  // that it has values on; -1: none

  // What the backward takes at one time, by its plan, for tangents as they were traced, in bytes;
  // with what is kept for it, given by output of the forward.
  int64_t backward_peak(const std::vector<int64_t>& kept_bytes) const;

  std::string backward_cuda_graphs() const;  // Backward::cuda_graphs

  // Whether an output gets a history, so that it is no view of another tensor.
  bool has_history(size_t output) const;

 private:
  Training() = default;

  std::shared_ptr<Differentiated> code_;
  size_t user_outputs_ = 0;
  bool draws_ = false;  // random numbers
  int gpu_ = -1;
};

}  // namespace braze::dispatch
