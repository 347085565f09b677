#include "passes/decompose.h"

#include <algorithm>

#include "graph/infer/strides.h"
#include "graph/op_kind.h"
#include "passes/aliasing.h"
#include "passes/decompose_rules.h"

namespace braze::passes {
namespace {

using graph::Emitter;
using graph::Graph;
using graph::MemoryFormat;
using graph::Node;
using graph::OpKind;
using graph::TensorType;
using graph::Value;

Replacement apply_rules(Emitter& emit, const Node& node) {
  for (auto rule : {decompose_activation, decompose_backward, decompose_batch_norm,
                    decompose_convolution, decompose_loss, decompose_norm, decompose_order,
                    decompose_pooling, decompose_rearrangement, decompose_shape}) {
    Replacement replacement = rule(emit, node);
    if (!replacement.empty()) return replacement;
  }
  return {};
}

// Takes out the nodes from `first` up to `end`, which nothing else uses.
void erase_range(Graph& graph, std::list<std::unique_ptr<Node>>::const_iterator first,
                 std::list<std::unique_ptr<Node>>::const_iterator end) {
  while (end != first) {
    Node* node = std::prev(end)->get();
    if (std::prev(end) == first) {
      graph.erase(node);
      return;
    }
    graph.erase(node);
  }
}

bool is_unused(const Graph& graph, const Node& node) {
  return std::none_of(node.results().begin(), node.results().end(),
                      [&](const Value* result) { return result && graph.has_uses(result); });
}

bool decompose_node(Graph& graph, std::list<std::unique_ptr<Node>>::const_iterator place) {
  Node* node = place->get();
  if (is_unused(graph, *node)) return false;
  const bool is_first = place == graph.nodes().begin();
  const auto before = is_first ? place : std::prev(place);
  Emitter emit(graph, node);
  Replacement replacement = apply_rules(emit, *node);
  bool fits = !replacement.empty();
  for (size_t i = 0; fits && i < node->results().size(); ++i) {
    Value* result = node->results()[i];
    if (!result || !graph.has_uses(result)) continue;
    Value* made = replacement[i];
    // A view must stay one, so no copy may give it its strides.
    const bool exact = made && made->type().sizes == result->type().sizes &&
                       made->type().strides == result->type().strides;
    if (made && !(node->op().view && exact))
      made = node->op().view ? nullptr : with_type(emit, made, result->type());
    replacement[i] = made;
    fits = made != nullptr;
  }
  if (!fits) {
    erase_range(graph, is_first ? graph.nodes().begin() : std::next(before), place);
    return false;
  }
  for (size_t i = 0; i < node->results().size(); ++i) {
    Value* result = node->results()[i];
    if (result && graph.has_uses(result)) graph.replace_all_uses(result, replacement[i]);
  }
  graph.erase(node);
  return true;
}

}  // namespace

Value* with_type(Emitter& emit, Value* value, const TensorType& wanted) {
  BRAZE_CHECK(value->type().sizes == wanted.sizes, "a decomposition gives ",
              to_string(value->type()), " for ", to_string(wanted));
  value = emit.cast(value, wanted.dtype);
  return value->type().strides == wanted.strides ? value : emit_copy(emit, value, wanted.strides);
}

Value* row_major(Emitter& emit, Value* x) {
  if (x->type().strides == graph::make_type(x->type().dtype, x->type().sizes).strides) return x;
  return emit(OpKind::kclone, {x, MemoryFormat::kContiguous});
}

Value* emit_copy(Emitter& emit, Value* value, const sym::Dims& strides) {
  TensorType type = value->type();
  for (MemoryFormat format :
       {MemoryFormat::kContiguous, MemoryFormat::kChannelsLast, MemoryFormat::kPreserve}) {
    if (format == MemoryFormat::kChannelsLast && type.rank() != 4) continue;
    if (like_strides(type, format) == strides) return emit(OpKind::kclone, {value, format});
  }
  type.strides = strides;
  if (graph::is_complex(type.dtype) || graph::may_overlap_itself(type)) return nullptr;
  return emit(OpKind::kcopy_strided, {value, strides});
}

bool decompose(Graph& graph) {
  bool changed = false;
  for (auto place = graph.nodes().begin(); place != graph.nodes().end();) {
    const auto next = std::next(place);
    changed |= decompose_node(graph, place);
    place = next;
  }
  if (changed) recompute_storages(graph);
  return changed;
}

}  // namespace braze::passes
