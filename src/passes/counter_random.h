// Random operators as functions of a counter, which kernels compute where they need them.
//
// Needs and keeps a functional graph. One draw of the device's default generator at each call, the
// seed, stands for all that the operators would draw; `braze.random(seed, offset, size, dtype)` is
// a function of it, and each operator has offsets of its own. The numbers are others than eager's,
// of the same distributions: that is what `options={"rng": "counter"}` asks for.
//
//   before                                          after
//   %1: f32[8] = aten.bernoulli.p(%0, 0.9, None)    %1: i64[] = aten.randint.low(0, 2^63 - 1, [])
//                                                   %2: f32[8] = braze.random(%1, 0, [8], f32)
//                                                   %3: bool[8] = aten.lt.Scalar(%2, 0.9)
//                                                   %4: f32[8] = aten._to_copy(%3, f32)
//
// It stands behind functionalise, where operators that draw in place have become ones that give a
// tensor, and, of a graph with a backward, in front of the partition, so that the seed crosses and
// not what is made of it.
//
// It writes rand, randn, rand_like, randn_like, randint, randint_like, bernoulli, native_dropout,
// normal (but with a tensor of standard deviations), and in place uniform_, normal_, exponential_,
// cauchy_, geometric_, log_normal_, random_. The others draw as in eager (randperm, multinomial,
// poisson, gamma, binomial, rrelu), and so do those with a generator of the user's, with arguments
// that eager refuses, complex ones and integers of more than 2^54 values.
#pragma once

#include "graph/graph.h"

namespace braze::passes {

// Whether the graph changed.
bool use_counter_random(graph::Graph& graph);

// Whether an operator is the draw of a seed.
bool draws_seed(const graph::Node& node);

}  // namespace braze::passes
