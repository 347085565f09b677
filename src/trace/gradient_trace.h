// The gradients of a graph as a graph that has gradients itself: the graph is replayed under a
// tracer with autograd on, its results are differentiated there (backward.h), and the gradients
// have a backward in turn (joint.h), so that what comes of it is a joint graph like that of any
// code.
//
//   graph:   %1 = aten.tanh(%0)           trace: %2 = aten.tanh(%0)
//            return %1                           %3 = aten.tanh_backward(%1 tangent of before, %2)
//                                                ...                     the backward of %3
//                                                return %3, gradients of %0 and %1
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "trace/tracer.h"

namespace braze::trace {

struct GradientRequest {
  // A functional graph without writes; its outputs: what is differentiated, results of the call,
  // and behind these, as many as `looked_for`, results of nodes that are only looked for.
  const graph::Graph& graph;
  size_t looked_for = 0;
  // By input of the graph: undefined where nothing uses it. Those that require grad are what the
  // trace has its own gradients for.
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> tangents;  // of the first outputs
  std::vector<int> leaves;           // inputs whose gradients are asked for
  std::span<const int64_t> symbols;  // sizes become numbers
  // Outputs that are results of the call. What the gradients depend on by way of one of them they
  // depend on by way of `result(i)`, the user's; undefined if it is not kept.
  std::vector<int> results;
  std::function<at::Tensor(size_t)> result;
};

struct GradientTrace {
  std::string why;  // not empty: what cannot be; the rest is of no use then
  Trace trace;
  // What an input of the trace's graph is, tangents of the trace aside.
  struct Input {
    enum class Kind : uint8_t { kInput, kTangent, kResult, kConstant } kind = Kind::kConstant;
    int index = 0;  // in the request
  };
  std::vector<Input> inputs;
  // What a gradient is: an output of the trace, or a tangent or an input itself.
  struct Gradient {
    enum class Kind : uint8_t { kUndefined, kOutput, kTangent, kInput } kind = Kind::kUndefined;
    int index = 0;
    std::vector<int64_t> expanded;  // an output is to be expanded to these sizes; empty: as it is
  };
  std::vector<Gradient> gradients;        // by leaf
  std::vector<graph::Value*> looked_for;  // in the trace's graph; null where there is none
};

// With the GIL, outside of any trace. Throws what operators throw, Braze's break among it.
GradientTrace trace_gradients(const GradientRequest& request);

}  // namespace braze::trace
