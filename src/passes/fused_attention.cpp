#include "passes/fused_attention.h"

#include <cmath>

#include "graph/arguments.h"
#include "graph/emitter.h"
#include "graph/op_kind.h"

namespace braze::passes {

using graph::Argument;
using graph::Node;
using graph::OpKind;
using graph::TensorType;
using graph::Value;
using sym::Int;

namespace {

// The arguments of aten._scaled_dot_product_flash_attention_for_cpu by position.
enum Position { kQuery, kKey, kValue, kDropout, kCausal, kMask, kScale };

bool is_f32_on_cpu(const TensorType& type) {
  return type.dtype == graph::DType::kFloat32 && type.device.type == graph::Device::Type::kCPU;
}

// [batch, heads, rows, depth], not empty, the elements of a row side by side.
bool has_rows(const TensorType& type) {
  return is_f32_on_cpu(type) && type.rank() == 4 && type.strides[3] == Int(1) &&
         std::none_of(type.sizes.begin(), type.sizes.end(),
                      [](Int size) { return size == Int(0); });
}

bool shares_heads(Int heads, Int key_heads) {
  if (heads == key_heads) return true;
  return heads.is_constant() && key_heads.is_constant() &&
         heads.constant() % key_heads.constant() == 0;
}

bool fit_together(const TensorType& query, const TensorType& key, const TensorType& value) {
  return key.sizes == value.sizes && key.sizes[0] == query.sizes[0] &&
         key.sizes[3] == query.sizes[3] && shares_heads(query.sizes[1], key.sizes[1]);
}

// Of two or four dimensions, each that of the scores or 1.
bool is_mask_of(const TensorType& mask, const TensorType& query, const TensorType& key) {
  if (!is_f32_on_cpu(mask) || (mask.rank() != 2 && mask.rank() != 4)) return false;
  const Int scores[] = {query.sizes[0], query.sizes[1], query.sizes[2], key.sizes[2]};
  const size_t absent = 4 - mask.sizes.size();
  for (size_t i = 0; i < mask.sizes.size(); ++i)
    if (mask.sizes[i] != Int(1) && mask.sizes[i] != scores[absent + i]) return false;
  return true;
}

std::optional<double> scale_of(const Node& node, Int depth) {
  if (!graph::is_none(node, kScale)) {
    if (!graph::is_scalar(node.args()[kScale])) return std::nullopt;
    return graph::optional_double_arg(node, kScale);
  }
  if (!depth.is_constant()) return std::nullopt;
  return 1 / std::sqrt(static_cast<double>(depth.constant()));
}

// The arguments of braze.attention that take its place; empty where it stays.
std::vector<Argument> fused_arguments(const graph::Graph& graph, const Node& node) {
  const auto& results = node.results();
  if (results.size() != 2 || !results[0] || (results[1] && graph.has_uses(results[1]))) return {};
  if (graph::double_arg_or(node, kDropout, 0) != 0) return {};
  Value *query = graph::tensor_arg(node, kQuery), *key = graph::tensor_arg(node, kKey);
  Value *value = graph::tensor_arg(node, kValue), *mask = graph::optional_tensor_arg(node, kMask);
  if (!has_rows(query->type()) || !has_rows(key->type()) || !has_rows(value->type()) ||
      !has_rows(results[0]->type()) || !fit_together(query->type(), key->type(), value->type()) ||
      (mask && !is_mask_of(mask->type(), query->type(), key->type())))
    return {};
  const auto scale = scale_of(node, query->type().sizes[3]);
  if (!scale) return {};
  return {query,
          key,
          value,
          mask ? Argument(mask) : Argument(graph::None{}),
          graph::bool_arg_or(node, kCausal, false),
          *scale};
}

}  // namespace

bool use_fused_attention(graph::Graph& graph) {
  bool changed = false;
  for (auto it = graph.nodes().begin(); it != graph.nodes().end();) {
    Node* node = (it++)->get();
    if (node->op().kind != OpKind::k_scaled_dot_product_flash_attention_for_cpu) continue;
    std::vector<Argument> arguments = fused_arguments(graph, *node);
    if (arguments.empty()) continue;
    Value* result = node->result();
    graph::Emitter emit(graph, node);
    graph.replace_all_uses(result, emit.raw(graph::op_of(OpKind::kbraze_attention),
                                            std::move(arguments), result->type()));
    graph.erase(node);
    changed = true;
  }
  return changed;
}

}  // namespace braze::passes
