// The backward of a trace, recorded behind its forward: one joint graph.
//
// The forward has run through PyTorch's own autograd, whose nodes therefore hold the formulas and
// what these need: fakes of the trace and tensors from outside. `differentiate` walks them as the
// engine does (by descending sequence number; gradients that meet are added up in the order in
// which they come), calling each node on fakes, so that the operators of the backward land in the
// graph of the trace. The walk ends where the trace begins: at the edges of the tensors from
// outside, whose own nodes and hooks are left alone; they run when the compiled code does.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "graph/joint.h"

namespace braze::trace {

class TraceState;

// Appends the backward of those of `outputs` that require grad, with respect to all inputs of the
// graph that do. Within a scope of the tracer. `begin` is the thread's autograd sequence number at
// the beginning of the trace: nodes with a lower one are from outside. Puts the gradients into
// `gradients`, and what joint.inner tells behind them; one that no output depends on is left out. A
// text that is not empty says what cannot be; the trace is then of no use. Throws what operators
// throw.
std::string differentiate(TraceState& state, const std::vector<at::Tensor>& outputs, uint64_t begin,
                          std::vector<at::Tensor>& gradients, graph::Joint& joint);

}  // namespace braze::trace
