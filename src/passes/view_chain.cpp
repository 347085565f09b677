#include "passes/view_chain.h"

#include "graph/arguments.h"
#include "graph/infer/infer.h"
#include "graph/infer/strides.h"
#include "graph/op_kind.h"
#include "passes/unsupported.h"

namespace braze::passes {

using graph::Argument;
using graph::Emitter;
using graph::Node;
using graph::OpKind;
using graph::TensorType;
using graph::Value;
using sym::Int;

namespace {

std::vector<int64_t> inverse_order(std::span<const int64_t> order) {
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    inverse[graph::normalize_dim(order[i], static_cast<int64_t>(order.size()))] =
        static_cast<int64_t>(i);
  return inverse;
}

bool same_layout(const TensorType& a, const TensorType& b) {
  return a.sizes == b.sizes && a.strides == b.strides;
}

std::vector<Argument> with_base(const ViewLink& link, Value* base) {
  std::vector<Argument> args = link.args;
  args[0] = base;
  return args;
}

// Where an input lies in its storage is known for the call that was traced only.
void check_place(const ViewLink& link) {
  const bool absolute = link.args.size() > 3 && !std::holds_alternative<graph::None>(link.args[3]);
  if (absolute && link.parent->producer() == nullptr)
    throw Unsupported(link.op->name, "a place in the storage of an input that is written to");
}

Value* emit_as_strided(Emitter& emit, const ViewLink& link, Value* base) {
  check_place(link);
  // The offset counts from the beginning of the storage.
  const Int offset = link.type.offset - link.parent_type.offset;
  if (!same_layout(base->type(), link.parent_type) || !graph::is_dense(base->type()) ||
      offset.hint() < 0 || (base->producer() == nullptr && offset != Int(0)))
    throw Unsupported("aten.as_strided", "it views memory outside of a mutated tensor");
  std::vector<Argument> args{base, link.type.sizes, link.type.strides, graph::None{}};
  if (offset != Int(0)) args[3] = offset + base->type().offset;
  return emit(OpKind::kas_strided, std::move(args));
}

}  // namespace

Value* emit_view(Emitter& emit, const ViewLink& link, Value* base) {
  if (!link.op) return base;
  if (link.op->kind == OpKind::kas_strided) return emit_as_strided(emit, link, base);
  // Names strides, which are those of the parent's layout.
  if (link.op->kind == OpKind::k_reshape_alias && !same_layout(base->type(), link.parent_type))
    return emit.reshape(base, link.type.sizes);
  std::vector<Argument> args = with_base(link, base);
  TensorType type = link.type;
  if (same_layout(base->type(), link.parent_type)) {
    type.offset = type.offset - link.parent_type.offset + base->type().offset;
  } else {
    const auto types = graph::infer_types(*link.op, args);
    if (!types) throw Unsupported(link.op->name, "it views a mutated tensor");
    type = types->at(0);
    if (type.sizes != link.type.sizes) throw Unsupported(link.op->name, "its size depends on data");
  }
  return emit.raw(*link.op, std::move(args), std::move(type), base->storage());
}

Value* emit_inverse(Emitter& emit, const ViewLink& link, Value* base, Value* value) {
  if (!link.op) return value;
  // The scatter ops copy the base with the gaps that it has in memory.
  if (!graph::is_dense(base->type())) base = emit(OpKind::kclone, {base, graph::None{}});
  const std::vector<Argument> args = with_base(link, base);
  const sym::Dims& sizes = link.parent_type.sizes;
  const int64_t rank = link.parent_type.rank();
  switch (link.op->kind) {
    case OpKind::kalias:
    case OpKind::kdetach:
    case OpKind::klift_fresh:
      return value;
    // All elements, in the same order.
    case OpKind::kview:
    case OpKind::k_unsafe_view:
    case OpKind::k_reshape_alias:
    case OpKind::kunsqueeze:
    case OpKind::ksqueeze:
    case OpKind::ksqueeze_dim:
    case OpKind::ksqueeze_dims:
      return emit.reshape(value, sizes);
    case OpKind::kexpand:
      if (link.type.numel() == link.parent_type.numel()) return emit.reshape(value, sizes);
      throw Unsupported(link.op->name, "an expanded tensor is written to");
    case OpKind::kpermute:
      return emit.permute(value, inverse_order(graph::ints_arg(args, 1)));
    case OpKind::kt:
      return rank < 2 ? value : emit.permute(value, {1, 0});
    case OpKind::ktranspose_int:
      return emit(OpKind::ktranspose_int, {value, args[1], args[2]});
    case OpKind::kslice_Tensor:
      return emit(OpKind::kslice_scatter,
                  {base, value, graph::sym_arg_or(args, 1, 0), graph::ArgumentList(args)[2],
                   graph::ArgumentList(args)[3], graph::sym_arg_or(args, 4, 1)});
    case OpKind::kselect_int:
      return emit(OpKind::kselect_scatter, {base, value, args[1], args[2]});
    case OpKind::kdiagonal:
      return emit(OpKind::kdiagonal_scatter,
                  {base, value, graph::sym_arg_or(args, 1, 0), graph::sym_arg_or(args, 2, 0),
                   graph::sym_arg_or(args, 3, 1)});
    case OpKind::kas_strided: {
      check_place(link);
      const Int offset = link.type.offset - link.parent_type.offset;
      if (!same_layout(base->type(), link.parent_type) || !graph::is_dense(base->type()) ||
          base->type().offset != Int(0) || offset.hint() < 0)
        throw Unsupported(link.op->name, "it writes to memory outside of a mutated tensor");
      const bool is_input = base->producer() == nullptr;
      if (is_input && offset != Int(0))
        throw Unsupported(link.op->name, "it writes to a place in an input");
      const Argument place = offset == Int(0) ? Argument(graph::None{}) : Argument(offset);
      return emit(OpKind::kas_strided_scatter,
                  {base, value, link.type.sizes, link.type.strides, place});
    }
    default:
      throw Unsupported(link.op->name, "a view of this kind is written to");
  }
}

bool has_pieces(const graph::Op& op) {
  return op.kind == OpKind::ksplit_Tensor || op.kind == OpKind::ksplit_with_sizes ||
         op.kind == OpKind::kunbind_int;
}

Value* emit_piece(Emitter& emit, const Node& node, int i) {
  Value* self = graph::tensor_arg(node, 0);
  if (node.op().kind == OpKind::kunbind_int)
    return emit(OpKind::kselect_int, {self, Int(graph::int_arg_or(node, 1, 0)), Int(i)});
  const int64_t dim = graph::normalize_dim(graph::int_arg_or(node, 2, 0), self->type().rank());
  // Sizes from the node: what ends beyond the tensor for the sizes that the graph was traced with
  // need not do so for others that come from data.
  TensorType type = self->type();
  Int start, end;
  if (node.op().kind == OpKind::ksplit_Tensor) {
    const Int piece = graph::sym_arg(node, 1);
    start = piece * i;
    end = sym::min(start + piece, self->type().sizes[dim]);
  } else {
    const sym::Dims pieces = graph::dims_arg(node, 1);
    for (int before = 0; before < i; ++before) start = start + pieces[before];
    end = start + pieces[i];
  }
  type.sizes[dim] = node.result(i)->type().sizes[dim];
  type.offset = type.offset + start * type.strides[dim];
  return emit.raw(graph::op_of(OpKind::kslice_Tensor), {self, Int(dim), start, end, Int(1)},
                  std::move(type), self->storage());
}

}  // namespace braze::passes
