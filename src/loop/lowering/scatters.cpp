// Ops that accumulate into computed places: a kernel that stores what is there at first, one that
// accumulates.
//
// The walk along the scattered dim is the inner one, so that the elements that meet in one place do
// so in eager's order; every other dim of the result is an outer axis. On GPUs, where eager adds up
// in any order, all dims are outer axes; what eager adds up in a fixed order there is left to it,
// unless the order makes no difference.
#include <cmath>
#include <limits>
#include <optional>

#include "graph/op_kind.h"
#include "loop/lowering/lowering.h"
#include "loop/lowering/pointwise.h"

namespace braze::loop::lowering {
namespace {

using graph::OpKind;
using K = ExprKind;

bool is_supported(StoreOp op, DType dtype) {
  return !graph::is_complex(dtype) && (op == StoreOp::kLast || dtype != DType::kBool);
}

sym::Dims joined(sym::Dims sizes, const sym::Dims& more) {
  sizes.insert(sizes.end(), more.begin(), more.end());
  return sizes;
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

// Memory with the result's strides, of another dtype, that holds these elements at first.
int store_as(Lowering& lowering, const Node& node, DType dtype, const std::string& name,
             const ElementFunction& element) {
  graph::TensorType type = node.result()->type();
  type.dtype = dtype;
  type.offset = 0;
  const int buffer = lowering.add_buffer({.type = type, .value = node.result()});
  KernelBuilder kernel(lowering, node.origin(), name, sizes_of(node.result()));
  kernel.store(buffer, type.strides, kernel.outer(), element(kernel.outer()));
  kernel.finish();
  return buffer;
}

// The operand as another dtype, in memory of its own.
int copy_as(Lowering& lowering, const Node& node, DType dtype) {
  Value* self = graph::tensor_arg(node, 0);
  return store_as(lowering, node, dtype, "fused_copy",
                  [&](IndexView index) { return lowering.element(self, index); });
}

// Defines the result by casting what has been accumulated in another dtype.
void define_rounded(Lowering& lowering, const Node& node, int wide) {
  const DType dtype = node.result()->type().dtype;
  const DType from = lowering.program().buffers[wide].type.dtype;
  lowering.define(
      node, 0, {.size = 1, .loads = true},
      [&lowering, wide, from, dtype, strides = strides_of(node.result())](IndexView index) {
        ExprPool& pool = lowering.pool();
        return pool.cast(pool.load(wide, from, dot(pool, index, strides)), dtype);
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

// What several threads combine at one time: a GPU has no instructions for less than 32 bits.
DType atomic_dtype(DType dtype) {
  if (graph::is_half(dtype)) return DType::kFloat32;
  return graph::size_of(dtype) < 4 ? DType::kInt32 : dtype;
}

struct Scatter {
  StoreOp op = StoreOp::kAdd;
  DType accumulate = DType::kFloat32;  // another than the result's: cast when all is complete
  int64_t dim = 0;
  sym::Dims sizes;  // of what is scattered
  // The place along the dim, before it is checked, and the element.
  std::function<ExprRef(IndexView index)> place, element;
};

// The kernel over what is scattered, and the index of an element.
struct Walk {
  KernelBuilder kernel;
  Index index;
};

Walk walk_over(Lowering& lowering, const Node& node, const Scatter& scatter) {
  const std::string name = "fused_" + short_name(node.op());
  if (lowering.on_gpu()) {
    KernelBuilder kernel(lowering, node.origin(), name, scatter.sizes);
    Index index(kernel.outer().begin(), kernel.outer().end());
    return {std::move(kernel), std::move(index)};
  }
  const sym::Dims walk = {scatter.sizes[scatter.dim]};
  KernelBuilder kernel(lowering, node.origin(), name, without(scatter.sizes, scatter.dim), walk);
  Index index(kernel.outer().begin(), kernel.outer().end());
  index.insert(index.begin() + static_cast<ptrdiff_t>(scatter.dim), kernel.inner()[0]);
  return {std::move(kernel), std::move(index)};
}

// The place in the result of the element at an index, checked.
Index target_of(Lowering& lowering, const Node& node, const Scatter& scatter, Index index) {
  const sym::Int size = sizes_of(node.result())[scatter.dim];
  ExprRef place = lowering.pool().cast(scatter.place(index), DType::kInt64);
  index[scatter.dim] = lowering.checked(place, size);
  return index;
}

bool accumulate(Lowering& lowering, const Node& node, const Scatter& scatter) {
  Value* result = node.result();
  const bool widens = scatter.accumulate != result->type().dtype;
  const int wide = widens ? copy_as(lowering, node, scatter.accumulate) : -1;
  if (!widens) copy(lowering, node);
  Walk walk = walk_over(lowering, node, scatter);
  const Index target = target_of(lowering, node, scatter, walk.index);
  ExprRef element = scatter.element(walk.index);
  if (widens)
    walk.kernel.accumulate(scatter.op, wide, strides_of(result), target, element);
  else
    walk.kernel.accumulate(scatter.op, result, target, element);
  walk.kernel.finish();
  if (widens) define_rounded(lowering, node, wide);
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
  const DType dtype = self->type().dtype;
  const bool in_single = graph::is_half(dtype) && adds_rows(self, source, dim);
  const sym::Dims sizes = sizes_of(source);
  if (!never_empty(sizes) || !never_empty(sizes_of(self))) return false;
  if (!lowering.on_gpu()) {
    if (graph::is_half(dtype) && rank > 1 && !in_single) return false;
    if (rank > 1 && (!has_rows(node.result()) || !has_rows(source))) return false;
    lowering.realise_heavy(source);
  }
  return accumulate(
      lowering, node,
      {.accumulate = lowering.on_gpu() ? atomic_dtype(dtype)
                     : in_single       ? DType::kFloat32
                                       : dtype,
       .dim = dim,
       .sizes = sizes,
       .place = [&](IndexView index) { return lowering.element(places, index.subspan(dim, 1)); },
       .element = [&](IndexView index) { return lowering.element(source, index); }});
}

// self, dim, index, source (a tensor or a number), ...: a place of its own for each element. Eager
// keeps sums and products of halves in f32 until they are complete.
std::optional<Scatter> scatter_of(Lowering& lowering, const Node& node, StoreOp op) {
  Value* self = graph::tensor_arg(node, 0);
  Value* places = graph::tensor_arg(node, 2);
  const Operand operand = operand_arg(node, 3);
  Value* source = operand.value;
  const DType dtype = self->type().dtype;
  const int64_t rank = self->type().rank();
  if (rank == 0 || places->type().rank() != rank || !is_index(places) || !is_supported(op, dtype))
    return std::nullopt;
  if (source && (source->type().rank() != rank || source->type().dtype != dtype))
    return std::nullopt;
  const ExprRef number = source ? nullptr : number_as(lowering.pool(), operand, dtype);
  if (!source && !number) return std::nullopt;
  const sym::Dims sizes = sizes_of(places);
  if (!never_empty(sizes) || !never_empty(sizes_of(self))) return std::nullopt;
  const bool in_single = graph::is_half(dtype) && (op == StoreOp::kAdd || op == StoreOp::kMul);
  if (!lowering.on_gpu()) {
    const bool in_rows = !source || has_rows(source) || (in_single && repeats_along_rows(source));
    if (rank > 1 && !(has_rows(node.result()) && in_rows)) return std::nullopt;
    if (source) lowering.realise_heavy(source);
  }
  const bool atomic = lowering.on_gpu() && op != StoreOp::kLast;
  return Scatter{
      .op = op,
      .accumulate = atomic      ? atomic_dtype(dtype)
                    : in_single ? DType::kFloat32
                                : dtype,
      .dim = graph::normalize_dim(graph::int_arg(node, 1), rank),
      .sizes = sizes,
      .place = [&lowering, places](IndexView index) { return lowering.element(places, index); },
      .element =
          [&lowering, source, number](IndexView index) {
            return source ? lowering.element(source, index) : number;
          }};
}

bool lower_scatter(Lowering& lowering, const Node& node, StoreOp op) {
  const std::optional<Scatter> scatter = scatter_of(lowering, node, op);
  return scatter && accumulate(lowering, node, *scatter);
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

// What changes nothing that it is combined with.
ExprRef neutral(ExprPool& pool, StoreOp op, DType dtype) {
  const bool least = op == StoreOp::kMax;
  if (op != StoreOp::kMax && op != StoreOp::kMin) return pool.number(dtype, op == StoreOp::kMul);
  if (graph::is_float(dtype)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return pool.constant(dtype, least ? -kInfinity : kInfinity);
  }
  if (dtype == DType::kInt64) return pool.integer(least ? INT64_MIN : INT64_MAX);
  return pool.integer(least ? INT32_MIN : INT32_MAX, dtype);
}

// Combines the elements of each place beside the operand, and counts them.
bool lower_counted_scatter(Lowering& lowering, const Node& node, StoreOp op, bool is_mean) {
  const std::optional<Scatter> scatter = scatter_of(lowering, node, op);
  if (!scatter) return false;
  Value* self = graph::tensor_arg(node, 0);
  const bool with_self = graph::bool_arg_or(node, 5, true);
  const DType wide = scatter->accumulate, dtype = self->type().dtype;
  ExprPool& pool = lowering.pool();
  const int values = with_self ? copy_as(lowering, node, wide)
                               : store_as(lowering, node, wide, "fused_fill",
                                          [&](IndexView) { return neutral(pool, op, wide); });
  const int counts = store_as(lowering, node, DType::kInt32, "fused_fill",
                              [&](IndexView) { return pool.integer(with_self, DType::kInt32); });
  Walk walk = walk_over(lowering, node, *scatter);
  const Index target = target_of(lowering, node, *scatter, walk.index);
  const sym::Dims strides = strides_of(node.result());
  walk.kernel.accumulate(op, values, strides, target, scatter->element(walk.index));
  walk.kernel.accumulate(StoreOp::kAdd, counts, strides, target, pool.integer(1, DType::kInt32));
  walk.kernel.finish();
  lowering.define(node, 0, {.size = 6, .math = true, .loads = true}, [=, &lowering](IndexView at) {
    ExprPool& pool = lowering.pool();
    ExprRef place = dot(pool, at, strides);
    ExprRef count = pool.load(counts, DType::kInt32, place);
    ExprRef value = pool.load(values, wide, place);
    if (is_mean) {
      // Where nothing is counted, the operand stands.
      ExprRef many = pool.cast(pool.binary(K::kMax, count, pool.integer(1, DType::kInt32)), wide);
      value = pool.binary(graph::is_float(wide) ? K::kDiv : K::kFloorDiv, value, many);
    }
    if (!with_self) {
      ExprRef any = pool.binary(K::kLt, pool.integer(0, DType::kInt32), count);
      value = pool.where(any, value, pool.cast(lowering.element(self, at), wide));
    }
    return pool.cast(value, dtype);
  });
  return true;
}

// self, dim, index, source, reduce, include_self
bool lower_scatter_reduce(Lowering& lowering, const Node& node) {
  const std::string name = graph::string_arg_or(node, 4, "");
  const std::optional<StoreOp> op = named_op(name);
  const bool is_mean = name == "mean";
  if (op && graph::bool_arg_or(node, 5, true)) return lower_scatter(lowering, node, *op);
  if (!lowering.on_gpu() || (!op && !is_mean)) return false;
  return lower_counted_scatter(lowering, node, op.value_or(StoreOp::kAdd), is_mean);
}

// Arguments: self, indices, values, accumulate. Indices of one dim for the leading dims are
// lowered; negative ones count from the end. Indices of more dims are left to eager, which walks
// them in an order of its own, as are sums of floats on GPUs, which eager adds up in a fixed order.
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
  const DType dtype = self->type().dtype;
  if (lowering.on_gpu() && op == StoreOp::kAdd &&
      (graph::is_float(dtype) || atomic_dtype(dtype) != dtype))
    return false;
  const sym::Dims count = sizes_of(places[0]);
  const sym::Dims rest(sizes.begin() + static_cast<ptrdiff_t>(places.size()), sizes.end());
  if (!never_empty(sizes) || !never_empty(count)) return false;
  if (values->type().rank() > static_cast<int64_t>(rest.size()) + 1) return false;
  if (!lowering.on_gpu()) {
    if (!rest.empty() && !has_rows(node.result())) return false;
    lowering.realise_heavy(values);
  }
  copy(lowering, node);
  ExprPool& pool = lowering.pool();
  const Scatter scatter = {.dim = 0, .sizes = joined(count, rest)};
  Walk walk = walk_over(lowering, node, scatter);
  KernelBuilder& kernel = walk.kernel;
  const Index& source = walk.index;
  Index target(source.begin() + 1, source.end());
  for (size_t i = places.size(); i-- > 0;) {
    ExprRef place =
        pool.cast(lowering.element(places[i], IndexView(source).first(1)), DType::kInt64);
    ExprRef from_end = pool.add(place, pool.index(sizes[i]));
    place = pool.where(pool.binary(K::kLt, place, pool.integer(0)), from_end, place);
    target.insert(target.begin(), lowering.checked(place, sizes[i]));
  }
  kernel.accumulate(op, node.result(), target, lowering.broadcast_element(values, source));
  kernel.finish();
  return true;
}

// Arguments: grad, indices, rows of the table, row that gets no gradient, whether to scale by
// frequency. On GPUs eager adds up in a fixed order. The rows of `grad` are added up by index.
// Eager skips an index that is no row of the table; here -0 is added for it, which changes nothing.
bool lower_embedding_backward(Lowering& lowering, const Node& node) {
  Value* grad = graph::tensor_arg(node, 0);
  Value* places = graph::tensor_arg(node, 1);
  Value* result = node.result();
  const DType dtype = result->type().dtype;
  const auto rank = static_cast<size_t>(places->type().rank());
  if (lowering.on_gpu() || graph::bool_arg(node, 4) || !is_index(places) || rank == 0 ||
      !graph::is_float(dtype) || grad->type().dtype != dtype ||
      !is_supported(StoreOp::kAdd, dtype) || sizes_of(grad).size() != rank + 1 || !has_rows(grad))
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

// self, number of intervals, the lowest and the highest number that is counted. On GPUs: intervals
// from the data are left to eager. Its kernel counts in the dtype of the elements.
bool lower_histogram(Lowering& lowering, const Node& node) {
  Value* self = graph::tensor_arg(node, 0);
  const DType dtype = self->type().dtype;
  if (!lowering.on_gpu() || graph::is_half(dtype) || !graph::is_float(dtype)) return false;
  const int64_t bins = graph::int_arg(node, 1);
  const double low = graph::double_arg_or(node, 2, 0), high = graph::double_arg_or(node, 3, 0);
  const sym::Dims sizes = sizes_of(self);
  if (bins > INT32_MAX || !(low < high) || !std::isfinite(high - low) || !never_empty(sizes))
    return false;
  const int counts = store_as(lowering, node, DType::kInt64, "fused_zeros",
                              [&](IndexView) { return lowering.pool().integer(0, DType::kInt64); });
  ExprPool& pool = lowering.pool();
  const ExprRef least = pool.constant(dtype, low), most = pool.constant(dtype, high);
  KernelBuilder kernel(lowering, node.origin(), "fused_" + short_name(node.op()), sizes);
  ExprRef x = lowering.element(self, kernel.outer());
  ExprRef inside =
      pool.binary(K::kAnd, pool.binary(K::kLe, least, x), pool.binary(K::kLe, x, most));
  ExprRef distance = pool.binary(K::kSub, x, least);
  ExprRef place = pool.binary(
      K::kDiv, pool.binary(K::kMul, distance, pool.constant(dtype, static_cast<double>(bins))),
      pool.binary(K::kSub, most, least));
  place = pool.cast(pool.where(inside, place, pool.constant(dtype, 0)), DType::kInt32);
  const auto word = [&](int64_t number) { return pool.integer(number, DType::kInt32); };
  const ExprRef target[] = {pool.cast(clamp(pool, place, word(0), word(bins - 1)), DType::kInt64)};
  kernel.accumulate(StoreOp::kAdd, counts, strides_of(node.result()), target,
                    pool.where(inside, pool.integer(1), pool.integer(0)));
  kernel.finish();
  define_rounded(lowering, node, counts);
  return true;
}

}  // namespace

Handler scatter_handler(OpKind kind) {
  switch (kind) {
    case OpKind::kembedding_dense_backward:
      return lower_embedding_backward;
    case OpKind::khistc:
      return lower_histogram;
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
