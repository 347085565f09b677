// Metadata by experiment: the operator's real kernel, run on zeros of the arguments' sizes and
// strides. For operators for which PyTorch has no shape function but a Python one: those are slow
// (20 to 540 us) and for quite a few operators do not give the strides that the kernel gives.
#pragma once

#include <ATen/core/stack.h>

#include "trace/operator.h"

namespace braze::trace {

// Replaces the arguments on the stack by fakes for the results. False, with the stack untouched,
// where the experiment is not possible: random ops, symbolic sizes, very large tensors, kernels
// that do not take zeros.
bool probe(const OperatorInfo& info, torch::jit::Stack& stack);

// How many kernels have been run so in this process. What is common has a rule and is not among
// them, which tests assert.
int64_t probe_count();

}  // namespace braze::trace
