// Ops that accumulate into computed places: a kernel that copies, one that accumulates.
//
// The walk along the scattered dim is the inner one, so that the elements that meet in one place do
// so in eager's order; every other dim of the result is an outer axis.
#include <optional>

#include "loop/lowering/lowering.h"
#include "loop/lowering/pointwise.h"

namespace braze::loop::lowering {
namespace {

using graph::OpKind;
using K = ExprKind;

bool is_supported(StoreOp op, DType dtype) {
  return !graph::is_complex(dtype) && (op == StoreOp::kLast || dtype != DType::kBool);
}

bool is_index(const Value* value) {
  return value->type().dtype == DType::kInt64 || value->type().dtype == DType::kInt32;
}

sym::Dims without(sym::Dims sizes, int64_t dim) {
  sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(dim));
  return sizes;
}

// Stores the operand as the result's first contents.
void copy(Lowering& lowering, const Node& node) {
  Value* self = graph::tensor_arg(node, 0);
  KernelBuilder kernel(lowering, node.origin(), "fused_copy", sizes_of(self));
  kernel.store(node.result(), kernel.outer(), lowering.element(self, kernel.outer()));
  kernel.finish();
}

// Stores the operand in memory of its own, in f32, and returns its buffer.
int copy_in_single(Lowering& lowering, const Node& node) {
  Value* self = graph::tensor_arg(node, 0);
  graph::TensorType type = node.result()->type();
  type.dtype = DType::kFloat32;
  type.offset = 0;
  const int buffer = lowering.add_buffer({.type = type, .value = node.result()});
  KernelBuilder kernel(lowering, node.origin(), "fused_copy", sizes_of(self));
  kernel.store(buffer, type.strides, kernel.outer(), lowering.element(self, kernel.outer()));
  kernel.finish();
  return buffer;
}

// Defines the result by rounding what has been accumulated in f32.
void define_rounded(Lowering& lowering, const Node& node, int single) {
  const DType dtype = node.result()->type().dtype;
  lowering.define(node, 0, {.size = 1, .loads = true},
                  [&lowering, single, dtype, strides = strides_of(node.result())](IndexView index) {
                    ExprPool& pool = lowering.pool();
                    ExprRef place = dot(pool, index, strides);
                    return pool.cast(pool.load(single, DType::kFloat32, place), dtype);
                  });
}

// A number as the result's first contents.
void fill(Lowering& lowering, const Node& node, ExprRef number) {
  KernelBuilder kernel(lowering, node.origin(), "fused_zeros", sizes_of(node.result()));
  kernel.store(node.result(), kernel.outer(), number);
  kernel.finish();
}

// Whether neighbours along the last dim are neighbours in memory.
bool has_rows(const Value* value) {
  const sym::Dims strides = strides_of(value);
  return !strides.empty() && strides.back() == sym::Int(1);
}

bool repeats_along_rows(const Value* value) {
  const sym::Dims strides = strides_of(value);
  return !strides.empty() && strides.back() == sym::Int(0);
}

struct Scatter {
  StoreOp op = StoreOp::kAdd;
  bool in_single = false;  // accumulates in f32 and rounds when all is complete
  int64_t dim = 0;
  sym::Dims sizes;  // of what is scattered
  // The place along the dim, before it is checked, and the element.
  std::function<ExprRef(IndexView index)> place, element;
};

bool accumulate(Lowering& lowering, const Node& node, const Scatter& scatter) {
  Value* result = node.result();
  const sym::Int size = sizes_of(result)[scatter.dim];
  const int single = scatter.in_single ? copy_in_single(lowering, node) : -1;
  if (single < 0) copy(lowering, node);
  const sym::Dims walk = {scatter.sizes[scatter.dim]};
  KernelBuilder kernel(lowering, node.origin(), "fused_" + short_name(node.op()),
                       without(scatter.sizes, scatter.dim), walk);
  Index index(kernel.outer().begin(), kernel.outer().end());
  index.insert(index.begin() + static_cast<ptrdiff_t>(scatter.dim), kernel.inner()[0]);
  Index target = index;
  target[scatter.dim] =
      lowering.checked(lowering.pool().cast(scatter.place(index), DType::kInt64), size);
  ExprRef element = scatter.element(index);
  if (single < 0) {
    kernel.accumulate(scatter.op, result, target, element);
  } else {
    kernel.accumulate(scatter.op, single, strides_of(result), target, element);
  }
  kernel.finish();
  if (single >= 0) define_rounded(lowering, node, single);
  return true;
}

// Whether eager adds up rows of halves in f32. Otherwise it rounds after each addition.
bool adds_rows(const Value* self, const Value* source, int64_t dim) {
  return self->type().rank() == 2 && dim == 0 && self->type().is_contiguous() &&
         source->type().is_contiguous();
}

// self, dim, index of one dim, source, alpha
bool lower_index_add(Lowering& lowering, const Node& node) {
  Value* self = graph::tensor_arg(node, 0);
  Value* places = graph::tensor_arg(node, 2);
  Value* source = graph::tensor_arg(node, 3);
  const int64_t rank = self->type().rank();
  if (rank == 0 || source->type().rank() != rank || places->type().rank() != 1 ||
      !is_index(places) || !is_supported(StoreOp::kAdd, self->type().dtype) ||
      source->type().dtype != self->type().dtype)
    return false;
  if (!graph::is_none(node, 4) && !graph::is_number(node.args()[4], 1)) return false;
  const int64_t dim = graph::normalize_dim(graph::int_arg(node, 1), rank);
  const bool half = graph::is_half(self->type().dtype);
  const bool in_single = half && adds_rows(self, source, dim);
  if (half && rank > 1 && !in_single) return false;
  const sym::Dims sizes = sizes_of(source);
  if (!never_empty(sizes) || !never_empty(sizes_of(self))) return false;
  if (rank > 1 && (!has_rows(node.result()) || !has_rows(source))) return false;
  lowering.realise_heavy(source);
  return accumulate(
      lowering, node,
      {.in_single = in_single,
       .dim = dim,
       .sizes = sizes,
       .place = [&](IndexView index) { return lowering.element(places, index.subspan(dim, 1)); },
       .element = [&](IndexView index) { return lowering.element(source, index); }});
}

// self, dim, index, source (a tensor or a number), ...: a place of its own for each element. Eager
// keeps sums and products of halves in f32 until they are complete.
bool lower_scatter(Lowering& lowering, const Node& node, StoreOp op) {
  Value* self = graph::tensor_arg(node, 0);
  Value* places = graph::tensor_arg(node, 2);
  const Operand operand = operand_arg(node, 3);
  Value* source = operand.value;
  const DType dtype = self->type().dtype;
  const int64_t rank = self->type().rank();
  if (rank == 0 || places->type().rank() != rank || !is_index(places) || !is_supported(op, dtype))
    return false;
  if (source && (source->type().rank() != rank || source->type().dtype != dtype)) return false;
  const ExprRef number = source ? nullptr : number_as(lowering.pool(), operand, dtype);
  if (!source && !number) return false;
  const int64_t dim = graph::normalize_dim(graph::int_arg(node, 1), rank);
  const sym::Dims sizes = sizes_of(places);
  if (!never_empty(sizes) || !never_empty(sizes_of(self))) return false;
  const bool in_single = graph::is_half(dtype) && (op == StoreOp::kAdd || op == StoreOp::kMul);
  const bool in_rows = !source || has_rows(source) || (in_single && repeats_along_rows(source));
  if (rank > 1 && !(has_rows(node.result()) && in_rows)) return false;
  if (source) lowering.realise_heavy(source);
  return accumulate(
      lowering, node,
      {.op = op,
       .in_single = in_single,
       .dim = dim,
       .sizes = sizes,
       .place = [&](IndexView index) { return lowering.element(places, index); },
       .element =
           [&](IndexView index) { return source ? lowering.element(source, index) : number; }});
}

bool lower_scatter_last(Lowering& lowering, const Node& node) {
  return lower_scatter(lowering, node, StoreOp::kLast);
}

bool lower_scatter_add(Lowering& lowering, const Node& node) {
  return lower_scatter(lowering, node, StoreOp::kAdd);
}

std::optional<StoreOp> named_op(const std::string& name) {
  if (name == "sum" || name == "add") return StoreOp::kAdd;
  if (name == "prod" || name == "multiply") return StoreOp::kMul;
  if (name == "amax") return StoreOp::kMax;
  if (name == "amin") return StoreOp::kMin;
  return std::nullopt;
}

// self, dim, index, source, reduce, include_self
bool lower_scatter_reduce(Lowering& lowering, const Node& node) {
  const std::optional<StoreOp> op = named_op(graph::string_arg_or(node, 4, ""));
  if (!op || !graph::bool_arg_or(node, 5, true)) return false;
  return lower_scatter(lowering, node, *op);
}

// Arguments: self, indices, values, accumulate. Indices of one dim for the leading dims are
// lowered; negative ones count from the end. Indices of more dims are left to eager, which walks
// them in an order of its own.
bool lower_index_put(Lowering& lowering, const Node& node) {
  Value* self = graph::tensor_arg(node, 0);
  const std::vector<Value*> places = graph::tensor_list_arg(node, 1);
  Value* values = graph::tensor_arg(node, 2);
  const sym::Dims sizes = sizes_of(self);
  const StoreOp op = graph::bool_arg_or(node, 3, false) ? StoreOp::kAdd : StoreOp::kLast;
  if (places.empty() || places.size() > sizes.size() || !is_supported(op, self->type().dtype) ||
      values->type().dtype != self->type().dtype)
    return false;
  for (const Value* place : places)
    if (!place || !is_index(place) || place->type().rank() != 1 ||
        sizes_of(place) != sizes_of(places[0]))
      return false;
  const sym::Dims count = sizes_of(places[0]);
  const sym::Dims rest(sizes.begin() + static_cast<ptrdiff_t>(places.size()), sizes.end());
  if (!never_empty(sizes) || !never_empty(count)) return false;
  if (values->type().rank() > static_cast<int64_t>(rest.size()) + 1) return false;
  if (!rest.empty() && !has_rows(node.result())) return false;
  lowering.realise_heavy(values);
  copy(lowering, node);
  ExprPool& pool = lowering.pool();
  KernelBuilder kernel(lowering, node.origin(), "fused_index_put", rest, count);
  Index source(kernel.outer().begin(), kernel.outer().end()), target = source;
  source.insert(source.begin(), kernel.inner()[0]);
  for (size_t i = places.size(); i-- > 0;) {
    ExprRef place = pool.cast(lowering.element(places[i], kernel.inner()), DType::kInt64);
    ExprRef from_end = pool.add(place, pool.index(sizes[i]));
    place = pool.where(pool.binary(K::kLt, place, pool.integer(0)), from_end, place);
    target.insert(target.begin(), lowering.checked(place, sizes[i]));
  }
  kernel.accumulate(op, node.result(), target, lowering.broadcast_element(values, source));
  kernel.finish();
  return true;
}

// Arguments: grad, indices, rows of the table, row that gets no gradient, whether to scale by
// frequency. The rows of `grad` are added up by index. Eager skips an index that is no row of the
// table; here -0 is added for it, which changes nothing.
bool lower_embedding_backward(Lowering& lowering, const Node& node) {
  Value* grad = graph::tensor_arg(node, 0);
  Value* places = graph::tensor_arg(node, 1);
  Value* result = node.result();
  const DType dtype = result->type().dtype;
  const auto rank = static_cast<size_t>(places->type().rank());
  if (graph::bool_arg(node, 4) || !is_index(places) || rank == 0 || !graph::is_float(dtype) ||
      grad->type().dtype != dtype || !is_supported(StoreOp::kAdd, dtype) ||
      sizes_of(grad).size() != rank + 1 || !has_rows(grad))
    return false;
  const sym::Int count = graph::sym_arg(node, 2), padding = graph::sym_arg(node, 3);
  const sym::Dims walk = sizes_of(places), row = {sizes_of(grad).back()};
  if (!never_empty(sizes_of(grad)) || !never_empty(sizes_of(result))) return false;
  lowering.realise_heavy(grad);
  ExprPool& pool = lowering.pool();
  fill(lowering, node, pool.number(compute_dtype(dtype), 0));
  KernelBuilder kernel(lowering, node.origin(), "fused_" + short_name(node.op()), row, walk);
  Index source(kernel.inner().begin(), kernel.inner().end());
  source.push_back(kernel.outer()[0]);
  ExprRef place = pool.cast(lowering.element(places, kernel.inner()), DType::kInt64);
  ExprRef last = pool.index(count - sym::Int(1));
  ExprRef inside = clamp(pool, place, pool.integer(0), last);
  ExprRef counts = pool.binary(K::kAnd, pool.binary(K::kEq, place, inside),
                               pool.binary(K::kNe, place, pool.index(padding)));
  ExprRef value = pool.cast(lowering.element(grad, source), compute_dtype(dtype));
  value = pool.where(counts, value, pool.constant(compute_dtype(dtype), -0.0));
  const ExprRef target[] = {inside, kernel.outer()[0]};
  kernel.accumulate(StoreOp::kAdd, result, target, value);
  kernel.finish();
  return true;
}

}  // namespace

Handler scatter_handler(OpKind kind) {
  switch (kind) {
    case OpKind::kembedding_dense_backward:
      return lower_embedding_backward;
    case OpKind::kindex_add:
      return lower_index_add;
    case OpKind::kindex_put:
      return lower_index_put;
    case OpKind::kscatter_src:
    case OpKind::kscatter_value:
      return lower_scatter_last;
    case OpKind::kscatter_add:
      return lower_scatter_add;
    case OpKind::kscatter_reduce:
    case OpKind::kscatter_reduce_two:
      return lower_scatter_reduce;
    default:
      return nullptr;  // other families, or an extern call
  }
}

}  // namespace braze::loop::lowering
