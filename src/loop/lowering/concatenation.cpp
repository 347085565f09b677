// Results put together from parts: an element comes from the part whose range holds its index.
#include <algorithm>

#include "graph/op_kind.h"
#include "loop/lowering/pointwise.h"

namespace braze::loop::lowering {
namespace {

using graph::OpKind;
using K = ExprKind;

ExprRef at_least(ExprPool& pool, ExprRef index, sym::Int bound) {
  return pool.binary(K::kLe, pool.index(bound), index);
}
ExprRef below(ExprPool& pool, ExprRef index, sym::Int bound) {
  return pool.binary(K::kLt, index, pool.index(bound));
}
ExprRef both(ExprPool& pool, ExprRef a, ExprRef b) { return pool.binary(K::kAnd, a, b); }

// One operand along `dim`: indices [begin, end) of the result.
struct Part {
  Value* value;
  sym::Int begin, end;
};

// `element` gives a part's element, in the dtype that the result is computed in. Every element of
// every part is read, so index checks stay complete.
bool define_parts(Lowering& lowering, const Node& node, std::vector<Part> parts, int64_t dim) {
  if (parts.empty() || std::ssize(parts) > lowering.costs().joined_parts) return false;
  std::vector<Value*> values;
  for (const Part& part : parts) values.push_back(part.value);
  const DType dtype = node.result()->type().dtype;
  auto at = [&lowering, parts, dim, dtype](IndexView index) {
    ExprPool& pool = lowering.pool();
    const DType compute = compute_dtype(dtype);
    ExprRef result = pool.number(compute, 0);
    for (size_t i = parts.size(); i-- > 0;) {
      const Part& part = parts[i];
      Index own(index.begin(), index.end());
      own[dim] = pool.binary(K::kSub, own[dim], pool.index(part.begin));
      ExprRef inside =
          both(pool, at_least(pool, index[dim], part.begin), below(pool, index[dim], part.end));
      ExprRef value = lowering.element_within(part.value, own, sizes_of(part.value));
      value = pool.cast(value, compute);
      result = pool.masked(inside, value, result);
    }
    return pool.cast(result, dtype);
  };
  lowering.define(node, 0, lowering.traits_over(node, values, 3 * static_cast<int>(parts.size())),
                  at);
  return true;
}

bool lower_cat(Lowering& lowering, const Node& node) {
  const int64_t rank = node.result()->type().rank();
  const int64_t dim = graph::normalize_dim(graph::int_arg_or(node, 1, 0), rank);
  std::vector<Part> parts;
  sym::Int begin = 0;
  for (Value* value : graph::tensor_list_arg(node, 0)) {
    const bool empty = count_of(sizes_of(value)) == sym::Int(0);
    if (value->type().rank() != rank || empty) {
      if (!empty) return false;
      if (value->type().rank() == rank) begin = begin + sizes_of(value)[dim];
      continue;
    }
    parts.push_back({value, begin, begin + sizes_of(value)[dim]});
    begin = parts.back().end;
  }
  return define_parts(lowering, node, std::move(parts), dim);
}

bool lower_constant_pad(Lowering& lowering, const Node& node) {
  Value* self = graph::tensor_arg(node, 0);
  const sym::Dims sizes = sizes_of(self);
  const sym::Dims pad = graph::dims_arg(node, 1);  // last dim first: before, after
  const DType dtype = node.result()->type().dtype;
  graph::Argument number = sym::Int(0);
  if (!graph::is_none(node, 2)) number = node.args()[2];
  ExprRef fill = number_as(lowering.pool(), number, dtype, BesideHalves::kRounded);
  if (!fill || pad.size() > 2 * sizes.size() || pad.size() % 2 != 0) return false;
  sym::Dims before(sizes.size(), 0);
  for (size_t i = 0; i * 2 < pad.size(); ++i) before[sizes.size() - 1 - i] = pad[2 * i];
  lowering.realise_checked(self);  // negative padding leaves elements out
  Value* operands[] = {self};
  auto at = [&lowering, self, sizes, before, fill, dtype](IndexView index) {
    ExprPool& pool = lowering.pool();
    Index own;
    ExprRef inside = pool.integer(1, DType::kBool);
    for (size_t i = 0; i < sizes.size(); ++i) {
      own.push_back(pool.binary(K::kSub, index[i], pool.index(before[i])));
      inside = both(pool, inside,
                    both(pool, at_least(pool, index[i], before[i]),
                         below(pool, index[i], before[i] + sizes[i])));
    }
    ExprRef value = lowering.element_within(self, own, sizes);
    return pool.cast(pool.masked(inside, pool.cast(value, compute_dtype(dtype)), fill), dtype);
  };
  lowering.define(node, 0, lowering.traits_over(node, operands, 6), at);
  return true;
}

// self with `source` in place of the elements where `inside(index)` holds.
bool define_scattered(Lowering& lowering, const Node& node,
                      std::function<ExprRef(ExprPool& pool, IndexView index)> inside,
                      std::function<Index(ExprPool& pool, IndexView index)> map) {
  Value* self = graph::tensor_arg(node, 0);
  Value* source = graph::tensor_arg(node, 1);
  lowering.realise_checked(self);
  Value* operands[] = {self, source};
  auto at = [&lowering, self, source, inside = std::move(inside),
             map = std::move(map)](IndexView index) {
    ExprPool& pool = lowering.pool();
    const DType dtype = self->type().dtype, compute = compute_dtype(dtype);
    ExprRef put = lowering.element_within(source, map(pool, index), sizes_of(source));
    put = pool.cast(put, compute);
    ExprRef old = pool.cast(lowering.element(self, index), compute);
    return pool.cast(pool.masked(inside(pool, index), put, old), dtype);
  };
  lowering.define(node, 0, lowering.traits_over(node, operands, 6), at);
  return true;
}

bool lower_slice_scatter(Lowering& lowering, const Node& node) {
  const sym::Dims sizes = sizes_of(graph::tensor_arg(node, 0));
  const sym::Dims part = sizes_of(graph::tensor_arg(node, 1));
  if (sizes.empty() || !never_empty(part)) return false;
  const int64_t dim =
      graph::normalize_dim(graph::int_arg_or(node, 2, 0), static_cast<int64_t>(sizes.size()));
  const auto from = slice_start(graph::sym_arg_or(node, 3, 0), sizes[dim]);
  if (!from) return false;
  const sym::Int start = *from;
  const int64_t step = graph::int_arg_or(node, 5, 1);
  const sym::Int last = start + (part[dim] - sym::Int(1)) * step;
  return define_scattered(
      lowering, node,
      [dim, start, step, last](ExprPool& pool, IndexView index) {
        ExprRef inside = both(pool, at_least(pool, index[dim], start),
                              below(pool, index[dim], last + sym::Int(1)));
        ExprRef offset = pool.binary(K::kSub, index[dim], pool.index(start));
        ExprRef rest = pool.binary(K::kMod, offset, pool.integer(step));
        return both(pool, inside, pool.binary(K::kEq, rest, pool.integer(0)));
      },
      [dim, start, step](ExprPool& pool, IndexView index) {
        Index own(index.begin(), index.end());
        ExprRef offset = pool.binary(K::kSub, own[dim], pool.index(start));
        own[dim] = pool.binary(K::kFloorDiv, offset, pool.integer(step));
        return own;
      });
}

bool lower_select_scatter(Lowering& lowering, const Node& node) {
  const sym::Dims sizes = sizes_of(graph::tensor_arg(node, 0));
  const int64_t dim =
      graph::normalize_dim(graph::int_arg(node, 2), static_cast<int64_t>(sizes.size()));
  sym::Int place = graph::sym_arg(node, 3);
  if (sym::known_less(place, 0))
    place = place + sizes[dim];
  else if (!sym::known_at_least(place, 0))
    return false;
  return define_scattered(
      lowering, node,
      [dim, place](ExprPool& pool, IndexView index) {
        return pool.binary(K::kEq, index[dim], pool.index(place));
      },
      [dim](ExprPool&, IndexView index) {
        Index own(index.begin(), index.end());
        own.erase(own.begin() + dim);
        return own;
      });
}

}  // namespace

Handler concatenation_handler(OpKind kind) {
  switch (kind) {
    case OpKind::kcat:
      return lower_cat;
    case OpKind::kconstant_pad_nd:
      return lower_constant_pad;
    case OpKind::kslice_scatter:
      return lower_slice_scatter;
    case OpKind::kselect_scatter:
      return lower_select_scatter;
    default:
      return nullptr;  // other families, or an extern call
  }
}

}  // namespace braze::loop::lowering
