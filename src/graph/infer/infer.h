// Metadata of results, as eager PyTorch gives it: dtypes by promotion, broadcast sizes, the device
// of the operands or of the argument that names one; strides as on the CPU. The one place where
// they are worked out, for traces (trace/metadata.cpp) and for passes.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace braze::graph {

// The types of the results of `op` on these arguments, for a pass; empty optional: no rule for the
// op, or for these arguments. The offsets of views are those of their argument, moved on.
// InternalError for arguments that eager refuses, where the rule looks at them.
std::optional<std::vector<TensorType>> infer_types(const Op& op, std::span<const Argument> args);

}  // namespace braze::graph
