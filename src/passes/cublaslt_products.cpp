#include "passes/cublaslt_products.h"

#include <optional>

#include "graph/arguments.h"
#include "graph/emitter.h"
#include "graph/op_kind.h"
#include "passes/decompose_rules.h"

namespace braze::passes {

using graph::Argument;
using graph::DType;
using graph::Emitter;
using graph::Node;
using graph::OpKind;
using graph::TensorType;
using graph::Value;
using sym::Int;

namespace {

struct Product {
  Value *self = nullptr, *mat2 = nullptr;
  Value* bias = nullptr;  // or absent
};

bool is_matrix(const TensorType& type, int rank) {
  return type.rank() == rank && type.device.type == graph::Device::Type::kCUDA &&
         (type.dtype == DType::kFloat16 || type.dtype == DType::kBFloat16 ||
          type.dtype == DType::kFloat32);
}

std::optional<Product> product_of(const Node& node) {
  Product product;
  const OpKind kind = node.op().kind;
  const int rank = kind == OpKind::kbmm ? 3 : 2;
  if (kind == OpKind::kmm || kind == OpKind::kbmm) {
    product = {graph::tensor_arg(node, 0), graph::tensor_arg(node, 1)};
  } else if (kind == OpKind::kaddmm) {
    product = {graph::tensor_arg(node, 1), graph::tensor_arg(node, 2), graph::tensor_arg(node, 0)};
    const auto is_one = [&](int i) {
      return graph::is_none(node, i) || graph::is_number(node.args()[i], 1);
    };
    if (!is_one(3) || !is_one(4)) return std::nullopt;
    const TensorType& bias = product.bias->type();
    if (!is_matrix(bias, 1) || bias.sizes[0] != product.mat2->type().sizes[1]) return std::nullopt;
  } else {
    return std::nullopt;
  }
  const TensorType& result = node.result()->type();
  for (const Value* value : {product.self, product.mat2})
    if (!is_matrix(value->type(), rank) || value->type().dtype != result.dtype) return std::nullopt;
  if (!result.is_contiguous() || (product.bias && product.bias->type().dtype != result.dtype))
    return std::nullopt;
  return product;
}

// Of halves, elements in the widest access.
constexpr int64_t kPack = 8;
// Estimates for large products of halves, per second: operations in packs and element by element,
// and the bytes that a copy moves.
constexpr double kInPacks = 5e14, kByElement = 1.3e14, kCopied = 3e12;

// The dim along which rows (or, of what is transposed, columns) lie apart by no multiple of a pack.
std::optional<int> odd_dim(const TensorType& type) {
  for (int dim : {0, 1}) {
    if (type.strides[1 - dim] != Int(1)) continue;
    const Int stride = type.strides[dim];
    if (!stride.is_constant() || stride.constant() % kPack == 0 ||
        stride.constant() < type.sizes[1 - dim].hint())
      return std::nullopt;
    return dim;
  }
  return std::nullopt;
}

Int rounded_up(const Int& size) { return (size.constant() + kPack - 1) / kPack * kPack; }

// What the value is a transposed view of, so that two products that take it in two ways get one
// copy; null: of nothing.
Value* transposed_source(const Value* value) {
  const Node* node = value->producer();
  if (!node || node->op().kind != OpKind::kpermute || value->type().rank() != 2) return nullptr;
  return graph::dims_arg(*node, 1) == sym::Dims{1, 0} ? graph::tensor_arg(*node, 0) : nullptr;
}

Value* spread_out(Emitter& emit, Value* value) {
  if (Value* source = transposed_source(value)) {
    Value* spread = spread_out(emit, source);
    return spread == source ? value : emit.permute(spread, {1, 0});
  }
  const TensorType& type = value->type();
  const std::optional<int> dim = odd_dim(type);
  if (!dim) return value;
  sym::Dims strides = {1, 1};
  strides[*dim] = rounded_up(type.sizes[1 - *dim]);
  return emit(OpKind::kcopy_strided, {value, strides});
}

bool has_constant_sizes(const TensorType& type) {
  return type.sizes[0].is_constant() && type.sizes[1].is_constant();
}

double elements(const TensorType& type) {
  return static_cast<double>(type.sizes[0].constant()) *
         static_cast<double>(type.sizes[1].constant());
}

// Whether rows further apart make up for the copies that they take.
bool pays_to_spread(const Product& product, const TensorType& result) {
  if (result.rank() != 2 || result.dtype == DType::kFloat32) return false;
  const TensorType &self = product.self->type(), &mat2 = product.mat2->type();
  double moved = 0;
  for (const TensorType* type : {&self, &mat2, &result}) {
    if (!has_constant_sizes(*type)) return false;
    if (odd_dim(*type))
      moved += 2 * elements(*type) * static_cast<double>(graph::size_of(type->dtype));
  }
  if (moved == 0) return false;
  const double operations = 2 * elements(result) * static_cast<double>(self.sizes[1].constant());
  return operations * (1 / kByElement - 1 / kInPacks) > 1.5 * moved / kCopied;
}

Value* multiply(Emitter& emit, Product product, const Value& replaced) {
  TensorType type = replaced.type();
  const bool spreads = pays_to_spread(product, type);
  if (spreads) {
    product.self = spread_out(emit, product.self);
    product.mat2 = spread_out(emit, product.mat2);
    if (odd_dim(type)) type.strides[0] = rounded_up(type.sizes[1]);
  }
  const Argument bias = product.bias ? Argument(product.bias) : Argument(graph::None{});
  Value* result = emit.raw(graph::op_of(OpKind::kbraze_cublaslt_matmul),
                           {product.self, product.mat2, bias}, type);
  return type == replaced.type() ? result : emit_copy(emit, result, replaced.type().strides);
}

}  // namespace

bool use_cublaslt(graph::Graph& graph) {
  bool changed = false;
  for (auto place = graph.nodes().begin(); place != graph.nodes().end();) {
    Node* node = (place++)->get();
    const auto product = product_of(*node);
    if (!product) continue;
    Emitter emit(graph, node);
    graph.replace_all_uses(node->result(), multiply(emit, *product, *node->result()));
    graph.erase(node);
    changed = true;
  }
  return changed;
}

}  // namespace braze::passes
