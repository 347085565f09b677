#include "passes/few_rows.h"

#include <algorithm>

#include "graph/arguments.h"
#include "graph/emitter.h"
#include "graph/infer/promotion.h"
#include "graph/infer/strides.h"
#include "graph/op_kind.h"
#include "passes/aliasing.h"
#include "sym/facts.h"

namespace braze::passes {
namespace {

using graph::DType;
using graph::Emitter;
using graph::Graph;
using graph::Node;
using graph::None;
using graph::OpKind;
using graph::TensorType;
using graph::Value;
using sym::Int;

bool is_added(const Graph& graph, Value* made, Value* to) {
  const Node* from = made->producer();
  const TensorType& type = made->type();
  if (!from || from->op().kind != OpKind::kembedding_dense_backward || graph::bool_arg(*from, 4) ||
      made->users().size() != 1 || std::ranges::count(graph.outputs(), made) != 0)
    return false;
  const Value* indices = graph::tensor_arg(*from, 1);
  return type.device.type == graph::Device::Type::kCPU && to->type().sizes == type.sizes &&
         to->type().strides == type.strides && to->type().dtype == type.dtype &&
         graph::compute_dtype(type.dtype) == type.dtype && indices->type().dtype == DType::kInt64 &&
         sym::known_positive(indices->type().numel()) &&
         sym::known_positive(graph::sym_arg(*from, 2)) && sym::known_positive(type.sizes[1]);
}

// grad, indices, number of rows, index of padding: the gradient of a table, added to `to`.
Value* added_rows(Emitter& emit, const Node& from, Value* to) {
  Value *grad = graph::tensor_arg(from, 0), *indices = graph::tensor_arg(from, 1);
  const TensorType& type = from.result()->type();
  const Int count = indices->type().numel();
  Value* place = emit.reshape(indices, {count});
  Value* row = emit(OpKind::kclamp, {place, Int(0), graph::sym_arg(from, 2) - Int(1)});
  Value* counts =
      emit(OpKind::klogical_and, {emit(OpKind::keq_Tensor, {place, row}),
                                  emit(OpKind::kne_Scalar, {place, graph::sym_arg(from, 3)})});
  Value* source = emit.where(emit(OpKind::kunsqueeze, {counts, Int(1)}),
                             emit.reshape(grad, {count, type.sizes[1]}),
                             emit.full(graph::make_type(type.dtype, {}, type.device), -0.0));
  return emit(OpKind::kindex_add, {to, Int(0), row, source, Int(1)});
}

// a, b, alpha. Null: the node stays.
Value* added_embedding(Emitter& emit, const Node& node) {
  if (!graph::is_number(node.args().at(2), 1) || node.operands().size() != 2) return nullptr;
  for (int i : {1, 0}) {
    Value *made = graph::tensor_arg(node, i), *to = graph::tensor_arg(node, 1 - i);
    if (is_added(emit.graph(), made, to)) return added_rows(emit, *made->producer(), to);
  }
  return nullptr;
}

}  // namespace

std::optional<ClassLogarithms> logarithms_of_classes(Emitter& emit, const Node& node) {
  if (node.op().kind != OpKind::k_log_softmax) return {};
  Value* x = graph::tensor_arg(node, 0);
  const TensorType& type = node.result()->type();
  const int64_t rank = x->type().rank();
  const bool is_picked_from = std::ranges::any_of(node.result()->users(), [](const Node* user) {
    return user->op().kind == OpKind::knll_loss_forward;
  });
  if (!is_picked_from || rank != 2 || graph::normalize_dim(graph::int_arg(node, 1), rank) != 1 ||
      !graph::is_float(x->type().dtype) || graph::is_half(type.dtype) ||
      x->type().strides != type.strides || !sym::known_positive(type.sizes[1]))
    return {};
  x = emit.cast(x, type.dtype);
  const sym::Dims row{Int(1)};
  Value* max = emit(OpKind::kamax, {x, row, true});
  Value* shifted = emit.sub(x, max);
  Value* exps = emit.unary(OpKind::kexp, shifted);
  Value* sum = emit(OpKind::ksum_dim_IntList, {exps, row, true, None{}});
  Value* log = emit.unary(OpKind::klog, sum);
  return ClassLogarithms{emit.sub(shifted, log), max, log};
}

bool touch_few_rows(Graph& graph) {
  bool changed = false;
  for (auto place = graph.nodes().begin(); place != graph.nodes().end();) {
    Node* node = place->get();
    ++place;
    const OpKind kind = node->op().kind;
    if (kind != OpKind::k_log_softmax && kind != OpKind::kadd_Tensor) continue;
    Emitter emit(graph, node);
    Value* made = nullptr;
    if (kind == OpKind::kadd_Tensor)
      made = added_embedding(emit, *node);
    else if (const auto logarithms = logarithms_of_classes(emit, *node))
      made = logarithms->result;
    if (!made) continue;
    graph.replace_all_uses(node->result(), made);
    graph.erase(node);
    changed = true;
  }
  if (changed) recompute_storages(graph);
  return changed;
}

}  // namespace braze::passes
