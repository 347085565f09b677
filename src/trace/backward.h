// `backward()` and `torch.autograd.grad()` in the traced code: a walk (walk.h) whose gradients stay
// in the trace.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace braze::trace {

class TraceState;

struct BackwardCall {
  std::vector<at::Tensor> roots, tangents;
  std::vector<at::Tensor> inputs;  // empty: all leaves
  bool keeps_graph = false, creates_graph = false;
  bool accumulates = false;  // into leaves, which all inputs have to be then
};

// `leaves[i]` of which `gradients[i]` is; without `accumulates` the inputs, in their order, and
// undefined gradients where nothing depends on one.
struct BackwardResult {
  std::vector<at::Tensor> leaves, gradients;
};

// Within a scope of the tracer. A text that is not empty says what cannot be; the trace is then of
// no use. Throws what operators throw.
std::string run_backward(TraceState& state, const BackwardCall& call, uint64_t begin,
                         BackwardResult& result);

// What `.grad` becomes that is `before`, which may be undefined (and is written to, unless
// `creates_graph`), as AccumulateGrad has it. `gradient` is given up.
at::Tensor accumulated(const at::Tensor& leaf, const at::Tensor& before, at::Tensor gradient,
                       bool creates_graph);

}  // namespace braze::trace
