// Undoes what compiled code has done to the outside by the time it gives up (an index out of
// range), so that the call runs again in eager as if nothing had happened.
//
// A step fails either because of data, which graph/data_errors.h knows of, or because of what its
// operands are (sizes, dtypes, numbers), and then the first time that the code runs for such sizes,
// if ever. So inputs that are written to early are kept where data may be refused, and on first
// runs.
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
  int gpu = -1;                 // the number of the one that there are values on
  std::vector<int> inputs;      // graph inputs that are written to

  // Of a graph as traced.
  static RollbackNeeds of(const graph::Graph& graph);
};

class Rollback {
 public:
  // `writes_early`: inputs are written to before the last step that may fail. `first`: for the
  // sizes of this call the code has not run yet.
  Rollback(const RollbackNeeds& needs, c10::TensorImpl* const* inputs, bool writes_early,
           bool first)
      : complete_(!writes_early || needs.refuses || first || needs.inputs.empty()) {
    if (needs.random_numbers) drawn_from_.emplace(needs.gpu);
    if (writes_early && complete_) keep(needs, inputs);
  }

  // Whether undo() undoes all that the call may have done until it failed.
  bool is_complete() const { return complete_; }
  void undo();

 private:
  void keep(const RollbackNeeds& needs, c10::TensorImpl* const* inputs);

  std::optional<pytorch::GeneratorState> drawn_from_;
  std::vector<std::pair<at::Tensor, at::Tensor>> inputs_;  // an input and a copy of its contents
  bool complete_;
};

}  // namespace braze::dispatch
