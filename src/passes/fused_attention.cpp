#include "passes/fused_attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

// Where the arguments of aten._scaled_dot_product_flash_attention_for_cpu stand: query, key and
// value; dropout, causal, mask and scale.
struct Positions {
  int query = 0, dropout = 0;
};
constexpr Positions kOfForward = {0, 3};
// grad_out, query, key, value, out, logsumexp, dropout, ...
constexpr Positions kOfBackward = {1, 6};

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

std::optional<double> scale_of(const Node& node, int place, Int depth) {
  if (!graph::is_none(node, place)) {
    if (!graph::is_scalar(node.args()[place])) return std::nullopt;
    return graph::optional_double_arg(node, place);
  }
  if (!depth.is_constant()) return std::nullopt;
  return 1 / std::sqrt(static_cast<double>(depth.constant()));
}

// The arguments of braze.attention that take the place of the operator's, query and what follows;
// empty where it stays.
std::vector<Argument> fused_arguments(const Node& node, const Positions& at) {
  if (graph::double_arg_or(node, at.dropout, 0) != 0) return {};
  Value *query = graph::tensor_arg(node, at.query), *key = graph::tensor_arg(node, at.query + 1);
  Value* value = graph::tensor_arg(node, at.query + 2);
  Value* mask = graph::optional_tensor_arg(node, at.dropout + 2);
  if (!has_rows(query->type()) || !has_rows(key->type()) || !has_rows(value->type()) ||
      !fit_together(query->type(), key->type(), value->type()) ||
      (mask && !is_mask_of(mask->type(), query->type(), key->type())))
    return {};
  const auto scale = scale_of(node, at.dropout + 3, query->type().sizes[3]);
  if (!scale) return {};
  return {query,
          key,
          value,
          mask ? Argument(mask) : Argument(graph::None{}),
          graph::bool_arg_or(node, at.dropout + 1, false),
          *scale};
}

// Whether it lies as [batch, rows, heads, ...] does.
bool is_by_sequence(const TensorType& type) {
  sym::Dims turned = type.sizes;
  std::swap(turned[1], turned[2]);
  sym::Dims strides = graph::make_type(type.dtype, turned, type.device).strides;
  std::swap(strides[1], strides[2]);
  return type.strides == strides;
}

bool fuse_forward(graph::Graph& graph, Node* node, FusedAttention which) {
  const auto& results = node->results();
  if (results.size() != 2 || !results[0] || !has_rows(results[0]->type())) return false;
  const bool with_sums = results[1] && graph.has_uses(results[1]);
  if (with_sums && (which != FusedAttention::kAll || !is_f32_on_cpu(results[1]->type()) ||
                    !is_by_sequence(results[1]->type())))
    return false;
  std::vector<Argument> arguments = fused_arguments(*node, kOfForward);
  if (arguments.empty()) return false;
  graph::Emitter emit(graph, node);
  if (!with_sums) {
    graph.replace_all_uses(results[0], emit.raw(graph::op_of(OpKind::kbraze_attention),
                                                std::move(arguments), results[0]->type()));
    return true;
  }
  const Node* made =
      graph.add_node(graph::op_of(OpKind::kbraze_attention_with_logsumexp), std::move(arguments),
                     {results[0]->type(), results[1]->type()}, node->origin(), node);
  for (const size_t i : {0, 1}) graph.replace_all_uses(results[i], made->results()[i]);
  return true;
}

bool fuse_backward(graph::Graph& graph, Node* node) {
  const auto& results = node->results();
  const Value *tangent = graph::tensor_arg(*node, 0), *out = graph::tensor_arg(*node, 4);
  const Value* sums = graph::tensor_arg(*node, 5);
  if (results.size() != 3 || !is_f32_on_cpu(tangent->type()) || !has_rows(out->type()) ||
      !is_f32_on_cpu(sums->type()) || std::ranges::any_of(results, [](const Value* result) {
        return !result || !is_f32_on_cpu(result->type()) || !is_by_sequence(result->type());
      }))
    return false;
  std::vector<Argument> arguments = fused_arguments(*node, kOfBackward);
  if (arguments.empty()) return false;
  for (const int i : {0, 4, 5})
    arguments.insert(arguments.begin() + i, graph::tensor_arg(*node, i));
  std::vector<TensorType> types;
  for (const Value* result : results) types.push_back(result->type());
  const Node* made = graph.add_node(graph::op_of(OpKind::kbraze_attention_backward),
                                    std::move(arguments), std::move(types), node->origin(), node);
  for (size_t i = 0; i < results.size(); ++i)
    graph.replace_all_uses(results[i], made->results()[i]);
  return true;
}

}  // namespace

bool use_fused_attention(graph::Graph& graph, FusedAttention which) {
  static const graph::Op& backward =
      graph::find_or_add_op("aten._scaled_dot_product_flash_attention_for_cpu_backward");
  bool changed = false;
  for (auto it = graph.nodes().begin(); it != graph.nodes().end();) {
    Node* node = (it++)->get();
    bool is_fused = false;
    if (node->op().kind == OpKind::k_scaled_dot_product_flash_attention_for_cpu)
      is_fused = fuse_forward(graph, node, which);
    else if (&node->op() == &backward && which == FusedAttention::kAll)
      is_fused = fuse_backward(graph, node);
    if (!is_fused) continue;
    graph.erase(node);
    changed = true;
  }
  return changed;
}

}  // namespace braze::passes
