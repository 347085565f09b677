// Metadata of results, as eager PyTorch gives it: dtypes by promotion, broadcast sizes, the device
// of the operands or of the argument that names one; strides as on the CPU. Covers the ops that
// passes make nodes for or have to understand.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace braze::graph {

// The types of the results of `op` on these arguments; empty optional: no rule for the op. The
// offsets of views are those of their argument, moved on. InternalError for arguments that eager
// refuses.
std::optional<std::vector<TensorType>> infer_types(const Op& op, std::span<const Argument> args);

// By family; each returns an empty optional for an op that is not its own.
std::optional<std::vector<TensorType>> infer_pointwise(OpKind kind, std::span<const Argument> args);
std::optional<std::vector<TensorType>> infer_view(OpKind kind, std::span<const Argument> args);
std::optional<std::vector<TensorType>> infer_other(OpKind kind, std::span<const Argument> args);

}  // namespace braze::graph
