#include "passes/aligned_products.h"

#include <optional>

#include "graph/arguments.h"
#include "graph/emitter.h"
#include "graph/op_kind.h"
#include "passes/aliasing.h"
#include "passes/decompose_rules.h"

namespace braze::passes {

using graph::Argument;
using graph::Emitter;
using graph::Node;
using graph::OpKind;
using graph::TensorType;
using graph::Value;
using sym::Int;

namespace {

// Of halves, elements in the widest access.
constexpr int64_t kPack = 8;
// Estimates for large products of halves, per second: operations in packs and element by element,
// and the bytes that a copy moves.
constexpr double kInPacks = 5e14, kByElement = 1.3e14, kCopied = 2e12;

struct Product {
  Value *self = nullptr, *mat2 = nullptr;
  Value* bias = nullptr;  // a number for each column, or absent
  int64_t rows = 0, inner = 0, columns = 0;
};

bool is_matrix(const TensorType& type) {
  return type.rank() == 2 && type.device.type == graph::Device::Type::kCUDA &&
         graph::is_half(type.dtype) && type.sizes[0].is_constant() && type.sizes[1].is_constant();
}

// Of two matrices of known sizes.
std::optional<Product> product_of(const Node& node) {
  Product product;
  if (node.op().kind == OpKind::kmm) {
    product = {graph::tensor_arg(node, 0), graph::tensor_arg(node, 1)};
  } else if (node.op().kind == OpKind::kaddmm) {
    product = {graph::tensor_arg(node, 1), graph::tensor_arg(node, 2), graph::tensor_arg(node, 0)};
    const auto is_one = [&](int i) {
      return graph::is_none(node, i) || graph::is_number(node.args()[i], 1);
    };
    if (!is_one(3) || !is_one(4) || product.bias->type().rank() != 1 ||
        product.bias->type().sizes[0] != product.mat2->type().sizes[1])
      return std::nullopt;
  } else {
    return std::nullopt;
  }
  const TensorType &self = product.self->type(), &mat2 = product.mat2->type();
  if (!is_matrix(self) || !is_matrix(mat2) || !node.result()->type().is_contiguous())
    return std::nullopt;
  product.rows = self.sizes[0].constant();
  product.inner = self.sizes[1].constant();
  product.columns = mat2.sizes[1].constant();
  return product;
}

int64_t missing(int64_t size) { return (kPack - size % kPack) % kPack; }

// What is a transposed view of something, so that products that take it in two ways share a copy.
Value* transposed_source(const Value* value) {
  const Node* node = value->producer();
  if (!node || node->op().kind != OpKind::kpermute) return nullptr;
  return graph::dims_arg(*node, 1) == sym::Dims{1, 0} ? graph::tensor_arg(*node, 0) : nullptr;
}

// The matrix with zeros behind its rows and columns, laid out as it is.
Value* padded(Emitter& emit, Value* value, int64_t rows, int64_t columns) {
  if (rows == 0 && columns == 0) return value;
  if (Value* source = transposed_source(value))
    return emit.permute(padded(emit, source, columns, rows), {1, 0});
  return emit(OpKind::kconstant_pad_nd,
              {row_major(emit, value), sym::Dims{0, columns, 0, rows}, Int(0)});
}

Value* padded(Emitter& emit, Value* row, int64_t columns) {
  if (columns == 0) return row;
  return emit(OpKind::kconstant_pad_nd, {row, sym::Dims{0, columns}, Int(0)});
}

// Operands of which rows lie side by side in memory begin at multiples of a pack where rows, or
// columns of what is transposed, are whole packs long.
bool is_odd(const Product& product) {
  const auto transposed = [](const Value* value) {
    return value->type().strides[1] != Int(1) && value->type().strides[0] == Int(1);
  };
  return missing(product.inner) > 0 || missing(product.columns) > 0 ||
         (missing(product.rows) > 0 && transposed(product.self));
}

bool pays(const Product& product) {
  const auto elements = [](int64_t rows, int64_t columns) {
    return static_cast<double>(rows) * static_cast<double>(columns);
  };
  const bool inner = missing(product.inner) > 0, columns = missing(product.columns) > 0,
             rows = missing(product.rows) > 0;
  double moved = 0;  // of halves, read and written
  if (inner || rows) moved += 4 * elements(product.rows, product.inner);
  if (inner || columns) moved += 4 * elements(product.inner, product.columns);
  if (columns || rows) moved += 4 * elements(product.rows, product.columns);
  const double operations =
      2 * elements(product.rows, product.columns) * static_cast<double>(product.inner);
  return operations * (1 / kByElement - 1 / kInPacks) > 1.5 * moved / kCopied;
}

Value* multiply(Emitter& emit, const Product& product, const Value& replaced) {
  const bool by_rows = product.self->type().strides[1] == Int(1);
  const int64_t rows = by_rows ? 0 : missing(product.rows), inner = missing(product.inner),
                columns = missing(product.columns);
  Value *self = padded(emit, product.self, rows, inner),
        *mat2 = padded(emit, product.mat2, inner, columns);
  Value* result = nullptr;
  if (product.bias)
    result =
        emit(OpKind::kaddmm, {padded(emit, product.bias, columns), self, mat2, Int(1), Int(1)});
  else
    result = emit(OpKind::kmm, {self, mat2});
  for (const int64_t dim : {0, 1})
    if ((dim == 0 ? rows : columns) > 0)
      result = emit(OpKind::kslice_Tensor,
                    {result, Int(dim), Int(0), replaced.type().sizes[dim], Int(1)});
  if (rows == 0 && columns == 0) return result;
  return emit(OpKind::kclone, {result, graph::MemoryFormat::kContiguous});
}

}  // namespace

bool align_products(graph::Graph& graph) {
  bool changed = false;
  for (auto place = graph.nodes().begin(); place != graph.nodes().end();) {
    Node* node = (place++)->get();
    const auto product = product_of(*node);
    if (!product || !is_odd(*product) || !pays(*product)) continue;
    Emitter emit(graph, node);
    graph.replace_all_uses(node->result(), multiply(emit, *product, *node->result()));
    graph.erase(node);
    changed = true;
  }
  if (changed) recompute_storages(graph);
  return changed;
}

}  // namespace braze::passes
