// The backward of compiled code in stages, where somebody takes gradients as they come
// (passes/stages.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dispatch/backward.h"
#include "graph/joint.h"
#include "passes/stages.h"

namespace braze::dispatch {

class StagedBackward {
 public:
  // What a stage hands on to a later one.
  struct HandedOn {
    passes::BackwardStage::Source source;
    int stage = 0;    // that takes it
    int tangent = 0;  // of those that this takes
  };
  struct Stage {
    std::unique_ptr<Backward> backward;
    std::vector<int> gradients;  // of the whole backward: its first outputs
    std::vector<HandedOn> handed_on;
    std::vector<size_t> kept;   // by number in backward->kept(): in the whole backward's
    std::vector<size_t> freed;  // numbers there that no later stage needs
    std::vector<graph::TensorType> tangents;
    std::vector<bool> flows;       // by tangent: see passes::BackwardStage::Source
    std::vector<at::Tensor> like;  // by tangent: one element on its device
  };

  StagedBackward(const Backward& whole, const graph::Joint& joint, int64_t bytes);

  const std::vector<Stage>& stages() const { return stages_; }

  // Runs a stage: its gradients, and behind them what it hands on. `saved` is that of the whole
  // backward, whose numbers its `unpack` is given.
  std::vector<at::Tensor> run(size_t stage, const Backward::Saved& saved,
                              std::vector<at::Tensor> tangents, std::span<const int64_t> symbols,
                              std::span<const double> numbers) const;

 private:
  std::vector<Stage> stages_;
};

}  // namespace braze::dispatch
