// What compiled code has done to the outside by the time it gives up (an index out of range):
// undone, so that the call runs again in eager as if nothing had been.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "pytorch/random.h"

namespace braze::dispatch {

// What there is to keep on each call.
struct RollbackNeeds {
  bool refuses = false;         // some step may refuse its data
  bool random_numbers = false;  // some are drawn
  std::vector<int> inputs;      // graph inputs that are written to

  // Of a graph as traced.
  static RollbackNeeds of(const graph::Graph& graph);
};

class Rollback {
 public:
  // `writes_early`: inputs are written to before the last step that may fail.
  Rollback(const RollbackNeeds& needs, c10::TensorImpl* const* inputs, bool writes_early)
      : complete_(!writes_early || needs.refuses || needs.inputs.empty()) {
    if (needs.random_numbers || (writes_early && needs.refuses)) keep(needs, inputs, writes_early);
  }

  // All that the call may have done until it failed.
  bool is_complete() const { return complete_; }
  void undo();

 private:
  void keep(const RollbackNeeds& needs, c10::TensorImpl* const* inputs, bool writes_early);

  std::optional<pytorch::GeneratorState> drawn_from_;
  std::vector<std::pair<at::Tensor, at::Tensor>> inputs_;  // and what was in them
  bool complete_;
};

}  // namespace braze::dispatch
