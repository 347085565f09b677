#include <numeric>

#include "graph/arguments.h"
#include "graph/op_kind.h"
#include "passes/decompose_rules.h"
#include "passes/unsupported.h"
#include "passes/view_chain.h"

namespace braze::passes {

using graph::Argument;
using graph::Emitter;
using graph::Node;
using graph::OpKind;
using graph::TensorType;
using graph::Value;
using sym::Int;

namespace {

Value* transpose(Emitter& emit, Value* self, int64_t a, int64_t b) {
  const int64_t rank = self->type().rank();
  std::vector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  if (rank > 0)
    std::swap(order[graph::normalize_dim(a, rank)], order[graph::normalize_dim(b, rank)]);
  return emit.permute(self, std::move(order));
}

Replacement pieces(Emitter& emit, const Node& node) {
  Replacement values;
  for (const Value* result : node.results()) {
    const bool wanted = result && emit.graph().has_uses(result);
    values.push_back(wanted ? emit_piece(emit, node, result->result_index()) : nullptr);
  }
  return values;
}

Replacement stack(Emitter& emit, const Node& node) {
  const std::vector<Value*> parts = graph::tensor_list_arg(node, 0);
  const int64_t rank = parts.at(0)->type().rank() + 1;
  const int64_t dim = graph::normalize_dim(graph::int_arg_or(node, 1, 0), rank);
  std::vector<Value*> rows;
  for (Value* part : parts) rows.push_back(emit(OpKind::kunsqueeze, {part, Int(dim)}));
  return {emit(OpKind::kcat, {std::move(rows), Int(dim)})};
}

// A tensor filled with one number.
Replacement filled(Emitter& emit, const Node& node, const Argument& value) {
  const TensorType& type = node.result()->type();
  if (graph::scalar_kind(value) == graph::DTypeKind::kComplex) return {};
  return {emit.full(type, value)};
}

// aten.copy(self, src): src, a tensor or a number, in the type of self.
Replacement copy(Emitter& emit, const Node& node) {
  const TensorType& type = node.result()->type();
  const Argument& number = node.args().at(1);
  if (graph::is_scalar(number) && graph::scalar_kind(number) == graph::DTypeKind::kComplex)
    throw Unsupported(node.op().name, "a complex number is written into a tensor");
  if (graph::is_scalar(number)) return {emit.full(type, number)};
  Value* source = graph::tensor_arg(node, 1);
  Value* converted = emit.cast(emit.expand(source, type.sizes), type.dtype, type.device);
  const bool moved =
      converted->producer() && !converted->producer()->op().view && converted != source;
  if (moved && converted->type().strides == type.strides) return {converted};
  return {emit_copy(emit, converted, type.strides)};
}

// x @ weight^T + bias with the leading dimensions of x in one.
Replacement linear(Emitter& emit, const Node& node) {
  Value* x = graph::tensor_arg(node, 0);
  Value* weight = graph::tensor_arg(node, 1);
  Value* bias = graph::optional_tensor_arg(node, 2);
  if (x->type().rank() < 2 || weight->type().rank() != 2 || (bias && bias->type().rank() != 1))
    return {};
  sym::Dims sizes = x->type().sizes;
  const Int depth = sizes.back();
  sizes.pop_back();
  Value* rows = emit.reshape(x, {sym::product(sizes), depth});
  Value* columns = emit.permute(weight, {1, 0});
  Value* product = bias ? emit(OpKind::kaddmm, {bias, rows, columns, Int(1), Int(1)})
                        : emit(OpKind::kmm, {rows, columns});
  sizes.push_back(weight->type().sizes[0]);
  return {emit.reshape(product, std::move(sizes))};
}

}  // namespace

Replacement decompose_shape(Emitter& emit, const Node& node) {
  auto self = [&] { return graph::tensor_arg(node, 0); };
  switch (node.op().kind) {
    case OpKind::kt:
      return {self()->type().rank() < 2 ? emit(OpKind::kalias, {self()})
                                        : transpose(emit, self(), 0, 1)};
    case OpKind::ktranspose_int:
      return {transpose(emit, self(), graph::int_arg(node, 1), graph::int_arg(node, 2))};
    case OpKind::ksplit_Tensor:
    case OpKind::ksplit_with_sizes:
    case OpKind::kunbind_int:
      return pieces(emit, node);
    case OpKind::kstack:
      return stack(emit, node);
    case OpKind::kzeros:
    case OpKind::kzeros_like:
    case OpKind::knew_zeros:
    case OpKind::kempty_memory_format:  // any content will do
    case OpKind::kempty_like:
    case OpKind::kempty_strided:
    case OpKind::knew_empty:
    case OpKind::knew_empty_strided:
      return filled(emit, node, Int(0));
    case OpKind::kones:
    case OpKind::kones_like:
    case OpKind::knew_ones:
      return filled(emit, node, Int(1));
    case OpKind::kfull_like:
    case OpKind::kfill_Scalar:
      return filled(emit, node, node.args().at(1));
    case OpKind::knew_full:
      return filled(emit, node, node.args().at(2));
    case OpKind::kscalar_tensor:
      return filled(emit, node, node.args().at(0));
    case OpKind::klift_fresh_copy:
      return {emit(OpKind::kclone, {self(), graph::None{}})};
    case OpKind::kcopy:
    case OpKind::kfill_Tensor:
      return copy(emit, node);
    case OpKind::klinear:
      return linear(emit, node);
    default:
      return {};
  }
}

}  // namespace braze::passes
