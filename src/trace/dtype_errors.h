// Dtypes that eager's kernels refuse, but not PyTorch's functions for metadata: what is not
// implemented for a dtype, and results in place that the dtype written to cannot hold.
#pragma once

#include <ATen/core/stack.h>

#include "trace/operator.h"

namespace braze::trace {

// Raises an error where eager would for operands of these dtypes, whatever their sizes and data.
// The arguments of the call are fakes and stand on the stack from `begin` on.
void refuse_dtypes(const OperatorInfo& info, const torch::jit::Stack& stack, size_t begin);

}  // namespace braze::trace
