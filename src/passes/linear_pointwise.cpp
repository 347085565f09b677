#include "passes/linear_pointwise.h"

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

// Elements of the weight below which ATen's cheaper call wins over oneDNN's.
constexpr int64_t kLargeWeight = 1 << 19;
// Below these sizes Braze's own kernel loses, because storing the result takes too large a part.
constexpr int64_t kPanelWeight = 1 << 18, kPanelInner = 384;
// The same for PanelProducts::kAll: multiplications, and the rows of operands that lie column by
// column, which are packed.
constexpr int64_t kLeastProduct = 1 << 17, kLeastInner = 16, kLeastPackedRows = 64;
constexpr int64_t kPanelColumns = 64;

struct Product {
  Value* rows = nullptr;     // [m, k]
  Value* columns = nullptr;  // [k, n]
  Value* bias = nullptr;     // [n] or absent
};

bool is_matrix(const TensorType& type) {
  return type.dtype == graph::DType::kFloat32 && type.rank() == 2 &&
         type.device.type == graph::Device::Type::kCPU;
}

std::optional<Product> product_of(const Node& node) {
  Product product;
  if (node.op().kind == OpKind::kmm) {
    product = {graph::tensor_arg(node, 0), graph::tensor_arg(node, 1), nullptr};
  } else if (node.op().kind == OpKind::kaddmm) {
    product = {graph::tensor_arg(node, 1), graph::tensor_arg(node, 2), graph::tensor_arg(node, 0)};
    auto is_one = [&](int i) { return graph::is_none(node, i) || is_number(node.args()[i], 1); };
    if (!is_one(3) || !is_one(4)) return std::nullopt;
  } else {
    return std::nullopt;
  }
  const TensorType& columns = product.columns->type();
  if (!is_matrix(product.rows->type()) || !is_matrix(columns)) return std::nullopt;
  if (product.bias) {
    const TensorType& bias = product.bias->type();
    if (bias.dtype != graph::DType::kFloat32 || bias.rank() != 1 ||
        bias.sizes[0] != columns.sizes[1] || bias.strides[0] != Int(1))
      return std::nullopt;
  }
  if (product.rows->type().sizes[0] == Int(0)) return std::nullopt;
  return product;
}

bool has_weight_of(const Product& product, int64_t elements) {
  const sym::Dims& sizes = product.columns->type().sizes;
  const Int weight = sizes[0] * sizes[1];
  return weight.is_constant() && weight.constant() >= elements;
}

bool is_view_of_sizes(const Node& node) {
  return node.op().kind == OpKind::kview || node.op().kind == OpKind::k_unsafe_view;
}

// The gelu that is the only user of the product, directly or through one change of sizes.
Node* gelu_after(const graph::Graph& graph, Value* value) {
  auto only_user = [&](const Value* of) -> Node* {
    if (of->users().size() != 1) return nullptr;
    for (const Value* output : graph.outputs())
      if (output == of) return nullptr;
    for (const graph::Mutation& mutation : graph.mutations())
      if (mutation.source == of) return nullptr;
    return of->users()[0];
  };
  Node* user = only_user(value);
  if (user && is_view_of_sizes(*user)) user = only_user(user->result());
  return user && user->op().kind == OpKind::kgelu ? user : nullptr;
}

// What takes the place of a product: its result, by `emit`, with the activation of `gelu` if that
// is not null.
using Fused = Value* (*)(graph::Emitter& emit, const Product& product, const Node* gelu,
                         const Value& replaced);

template <class Wanted>
bool fuse_products(graph::Graph& graph, Wanted wanted, Fused fused_product) {
  bool changed = false;
  for (auto it = graph.nodes().begin(); it != graph.nodes().end();) {
    Node* node = (it++)->get();
    auto product = product_of(*node);
    if (!product || !wanted(*product)) continue;
    Node* gelu = gelu_after(graph, node->result());
    graph::Emitter emit(graph, node);
    graph.replace_all_uses(node->result(), fused_product(emit, *product, gelu, *node->result()));
    if (gelu) {
      // The operand of gelu has its sizes and now its values.
      graph.replace_all_uses(gelu->result(), graph::tensor_arg(*gelu, 0));
      if (it != graph.nodes().end() && it->get() == gelu) ++it;
      graph.erase(gelu);
    }
    graph.erase(node);
    changed = true;
  }
  return changed;
}

Argument bias_of(const Product& product) {
  return product.bias ? Argument(product.bias) : Argument(graph::None{});
}

bool suits_panels(const Product& product) {
  return has_weight_of(product, kPanelWeight) &&
         product.columns->type().sizes[0].hint() >= kPanelInner;
}

bool suits_small_panels(const Product& product) {
  if (!has_weight_of(product, 1)) return false;
  const TensorType& given = product.rows->type();
  const int64_t rows = given.sizes[0].hint();
  const int64_t inner = product.columns->type().sizes[0].constant();
  const int64_t columns = product.columns->type().sizes[1].constant();
  if (given.strides[1] != Int(1) && rows < kLeastPackedRows) return false;
  return inner >= kLeastInner && fills_panels(columns) &&
         rows >= (kLeastProduct + inner * columns - 1) / (inner * columns);
}

bool suits_onednn(const Product& product) { return has_weight_of(product, kLargeWeight); }

Value* panel_product(graph::Emitter& emit, const Product& product, const Node* gelu,
                     const Value& replaced) {
  std::string activation = "none";
  if (gelu) activation = graph::string_arg_or(*gelu, 1, "none") == "tanh" ? "gelu_tanh" : "gelu";
  return emit.raw(graph::op_of(OpKind::kbraze_mm_pointwise),
                  {product.rows, product.columns, bias_of(product), activation}, replaced.type(),
                  replaced.storage());
}

Value* onednn_product(graph::Emitter& emit, const Product& product, const Node* gelu,
                      const Value& replaced) {
  Argument variant = std::string();
  if (gelu) variant = graph::string_arg_or(*gelu, 1, "none");
  Value* weight = emit.permute(product.columns, {1, 0});
  return emit.raw(graph::op_of(OpKind::kmkldnn_linear_pointwise),
                  {product.rows, weight, bias_of(product), std::string(gelu ? "gelu" : "none"),
                   std::vector<Int>(), variant},
                  replaced.type(), replaced.storage());
}

}  // namespace

bool fills_panels(int64_t columns) {
  const int64_t panels = (columns + kPanelColumns - 1) / kPanelColumns;
  return 4 * columns >= 3 * kPanelColumns * panels;
}

bool use_panel_products(graph::Graph& graph, PanelProducts which) {
  const auto is_wanted = [which](const Product& product) {
    return suits_panels(product) || (which == PanelProducts::kAll && suits_small_panels(product));
  };
  return which != PanelProducts::kNone && fuse_products(graph, is_wanted, panel_product);
}

bool use_linear_pointwise(graph::Graph& graph) {
  return fuse_products(graph, suits_onednn, onednn_product);
}

}  // namespace braze::passes
