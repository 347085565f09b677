// Sums and products of half precision into computed places, which eager keeps in float32 until they
// are complete.
#include "graph/arguments.h"
#include "passes/decompose_rules.h"

namespace braze::passes {

using graph::DType;
using graph::Emitter;
using graph::Node;
using graph::OpKind;
using graph::TensorType;
using graph::Value;

namespace {

constexpr int kSelf = 0, kDim = 1, kSource = 3, kFactor = 4;

// The same op over operands in float32, rounded in the end.
Replacement in_single(Emitter& emit, const Node& node) {
  TensorType type = node.result()->type();
  std::vector<graph::Argument> args = node.args();
  for (const int i : {kSelf, kSource})
    if (std::holds_alternative<Value*>(args.at(i)))
      args[i] = emit.cast(graph::tensor_arg(node, i), DType::kFloat32);
  const DType dtype = type.dtype;
  type.dtype = DType::kFloat32;
  type.offset = 0;
  return {emit.cast(emit.raw(node.op(), std::move(args), type), dtype)};
}

bool is_half(const Node& node) {
  return graph::is_half(node.result()->type().dtype) &&
         graph::tensor_arg(node, kSelf)->type().dtype == node.result()->type().dtype;
}

// Rows of a matrix, without a factor; others are rounded at each step.
bool adds_rows(const Node& node) {
  const TensorType& self = graph::tensor_arg(node, kSelf)->type();
  const TensorType& source = graph::tensor_arg(node, kSource)->type();
  const bool plain = graph::is_none(node, kFactor) || graph::is_number(node.args()[kFactor], 1);
  return plain && self.rank() == 2 && graph::normalize_dim(graph::int_arg(node, kDim), 2) == 0 &&
         self.is_contiguous() && source.is_contiguous() && source.dtype == self.dtype;
}

bool rounds_at_the_end(const Node& node) {
  const std::string op = graph::string_arg_or(node, 4, "");
  return (op == "add" || op == "multiply" || op == "sum" || op == "prod") &&
         graph::bool_arg_or(node, 5, true);
}

}  // namespace

Replacement decompose_indexing(Emitter& emit, const Node& node) {
  switch (node.op().kind) {
    case OpKind::kscatter_add:
      return is_half(node) ? in_single(emit, node) : Replacement{};
    case OpKind::kscatter_reduce:
    case OpKind::kscatter_reduce_two:
      return is_half(node) && rounds_at_the_end(node) ? in_single(emit, node) : Replacement{};
    case OpKind::kindex_add:
      return is_half(node) && adds_rows(node) ? in_single(emit, node) : Replacement{};
    default:
      return {};
  }
}

}  // namespace braze::passes
