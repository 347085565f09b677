// Views as data: how a value is made from the value that it views, and back.
#pragma once

#include <vector>

#include "graph/emitter.h"

namespace braze::passes {

// How a value came from `parent`: by a view op, or as the very tensor (result of an in-place op).
struct ViewLink {
  graph::Value* parent = nullptr;
  const graph::Op* op = nullptr;      // null: the same tensor
  std::vector<graph::Argument> args;  // args[0] stands for the parent
  graph::TensorType type;             // of the value
  graph::TensorType parent_type;
};

// The view, taken of `base`, which has the parent's contents. `base` may have another offset and,
// where the view can do it, other strides. Throws Unsupported.
graph::Value* emit_view(graph::Emitter& emit, const ViewLink& link, graph::Value* base);

// `base` (contents of the parent) with the viewed elements replaced by `value`, which has the
// view's sizes. Fresh or a view of `value`. Throws Unsupported for views without an inverse.
graph::Value* emit_inverse(graph::Emitter& emit, const ViewLink& link, graph::Value* base,
                           graph::Value* value);

// Result `i` of split, split_with_sizes or unbind of `self` as one slice or select.
graph::Value* emit_piece(graph::Emitter& emit, const graph::Node& node, int i);
bool has_pieces(const graph::Op& op);  // split, split_with_sizes, unbind

}  // namespace braze::passes
