// A function of single elements (trace/elements.h) as a graph of its own: what flex_attention's
// kernels compute at each score (braze.flex_attention, trace/flex_attention.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "trace/trace_state.h"

namespace braze::trace {

struct ElementProgram {
  // The text of a graph. Its inputs are scores [batch, heads, queries, keys], what comes for the
  // gradient of what they become, and the tables; positions are made in it.
  std::string text;
  std::vector<at::Tensor> tables;  // fakes of what it reads beside the numbers
};

// What the current trace has recorded between `numbers` (scores, and their tangent), `positions`
// (of four dimensions, one for each) and `outputs`. Nothing where a size or a number may vary.
std::optional<ElementProgram> element_program(const std::vector<at::Tensor>& numbers,
                                              const std::vector<at::Tensor>& positions,
                                              const std::vector<at::Tensor>& outputs);

}  // namespace braze::trace
