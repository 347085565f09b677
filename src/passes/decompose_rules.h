// The rules of the decomposition, by family.
#pragma once

#include <vector>

#include "graph/emitter.h"
#include "graph/infer/promotion.h"

namespace braze::passes {

// Values that stand for the results of a node, null for results that are not made (they must be
// unused). Empty: no rule for the node, which stays.
using Replacement = std::vector<graph::Value*>;

// Whether anything uses result `i` of the node.
inline bool is_used(const graph::Emitter& emit, const graph::Node& node, size_t i) {
  return i < node.results().size() && node.results()[i] && emit.graph().has_uses(node.results()[i]);
}

inline graph::Value* cast_optional(graph::Emitter& emit, graph::Value* value, graph::DType dtype) {
  return value ? emit.cast(value, dtype) : nullptr;
}

inline graph::Value* in_compute_dtype(graph::Emitter& emit, graph::Value* x) {
  return emit.cast(x, graph::compute_dtype(x->type().dtype));
}

// `value` in fresh memory with these strides. Null, so that the op is left to PyTorch, where no
// memory format gives them and elements would share a place or are complex.
graph::Value* emit_copy(graph::Emitter& emit, graph::Value* value, const sym::Dims& strides);

// `x`, in fresh memory where it is not row-major; strides of dimensions of one element count, too.
graph::Value* row_major(graph::Emitter& emit, graph::Value* x);

// `value` with the dtype and strides of `wanted`; null where emit_copy gives null.
graph::Value* with_type(graph::Emitter& emit, graph::Value* value, const graph::TensorType& wanted);

// Of a convolution: the sum of `dy` over all but the channels.
graph::Value* bias_gradient(graph::Emitter& emit, graph::Value* dy);

Replacement decompose_activation(graph::Emitter& emit, const graph::Node& node);
Replacement decompose_batch_norm(graph::Emitter& emit, const graph::Node& node);
Replacement decompose_convolution(graph::Emitter& emit, const graph::Node& node);
Replacement decompose_backward(graph::Emitter& emit, const graph::Node& node);
Replacement decompose_loss(graph::Emitter& emit, const graph::Node& node);
Replacement decompose_norm(graph::Emitter& emit, const graph::Node& node);
Replacement decompose_order(graph::Emitter& emit, const graph::Node& node);
Replacement decompose_pooling(graph::Emitter& emit, const graph::Node& node);
Replacement decompose_rearrangement(graph::Emitter& emit, const graph::Node& node);
Replacement decompose_shape(graph::Emitter& emit, const graph::Node& node);

}  // namespace braze::passes
