// Ops that read elements at computed places.
//
// kCheckIndex stands exactly where eager raises. What is gathered from must not be recomputed for
// each place, so math is realised first. What has no elements is left to PyTorch: a kernel has no
// work there and checks nothing, where eager does.
#include <algorithm>

#include "graph/op_kind.h"
#include "loop/lowering/lowering.h"

namespace braze::loop::lowering {
namespace {

using graph::OpKind;
using K = ExprKind;

ExprRef as_index(ExprPool& pool, ExprRef value) { return pool.cast(value, DType::kInt64); }

// Makes a negative index count from the end, then checks it.
ExprRef wrapped(Lowering& lowering, ExprRef index, sym::Int size) {
  ExprPool& pool = lowering.pool();
  ExprRef from_end = pool.add(index, pool.index(size));
  ExprRef negative = pool.binary(K::kLt, index, pool.integer(0));
  return lowering.checked(pool.where(negative, from_end, index), size);
}

Traits gathered(Lowering& lowering, const Node& node, Value* source,
                std::span<Value* const> indices) {
  lowering.realise_math(source);
  lowering.realise_checked(source);
  Traits traits = lowering.traits_over(node, indices, 4);
  traits.math = traits.loads = traits.checked = true;
  return traits;
}

bool lower_embedding(Lowering& lowering, const Node& node) {
  Value* table = graph::tensor_arg(node, 0);
  Value* rows = graph::tensor_arg(node, 1);
  if (!is_index(rows) || table->type().rank() != 2 || !never_empty(sizes_of(table))) return false;
  const sym::Int count = sizes_of(table)[0];
  Value* indices[] = {rows};
  lowering.define(node, 0, gathered(lowering, node, table, indices),
                  [&lowering, table, rows, count](IndexView index) {
                    ExprPool& pool = lowering.pool();
                    ExprRef row =
                        as_index(pool, lowering.element(rows, index.first(index.size() - 1)));
                    Index own = {lowering.checked(row, count), index.back()};
                    return lowering.element(table, own);
                  });
  return true;
}

// self[..., i0, i1, ...]: the index tensors broadcast to one shape, which stands at the first of
// them where they are adjacent, else in front.
bool lower_index(Lowering& lowering, const Node& node) {
  Value* self = graph::tensor_arg(node, 0);
  const sym::Dims sizes = sizes_of(self);
  std::vector<Value*> listed = graph::tensor_list_arg(node, 1);
  if (listed.size() > sizes.size()) return false;
  listed.resize(sizes.size());
  std::vector<Value*> indices;
  size_t first = sizes.size(), last = 0;
  int64_t rank = 0;
  for (size_t i = 0; i < listed.size(); ++i) {
    if (!listed[i]) continue;
    if (!is_index(listed[i])) return false;  // masks have data-dependent sizes
    indices.push_back(listed[i]);
    first = std::min(first, i);
    last = i;
    rank = std::max(rank, listed[i]->type().rank());
  }
  if (indices.empty()) return false;
  const bool adjacent = last - first + 1 == indices.size();
  const size_t place = adjacent ? first : 0;
  if (!never_empty(sizes)) return false;
  lowering.define(node, 0, gathered(lowering, node, self, indices),
                  [&lowering, self, listed, sizes, place, rank](IndexView index) {
                    ExprPool& pool = lowering.pool();
                    IndexView common = index.subspan(place, rank);
                    Index rest(index.begin(), index.end());
                    rest.erase(rest.begin() + static_cast<ptrdiff_t>(place),
                               rest.begin() + static_cast<ptrdiff_t>(place + rank));
                    Index own;
                    size_t next = 0;
                    for (size_t i = 0; i < sizes.size(); ++i) {
                      if (!listed[i]) {
                        own.push_back(rest[next++]);
                        continue;
                      }
                      ExprRef at = as_index(pool, lowering.broadcast_element(listed[i], common));
                      own.push_back(wrapped(lowering, at, sizes[i]));
                    }
                    return lowering.element(self, own);
                  });
  return true;
}

bool lower_index_select(Lowering& lowering, const Node& node) {
  Value* self = graph::tensor_arg(node, 0);
  Value* places = graph::tensor_arg(node, 2);
  if (self->type().rank() == 0 || places->type().rank() != 1 || !is_index(places) ||
      !never_empty(sizes_of(self)))
    return false;
  const int64_t dim = graph::normalize_dim(graph::int_arg(node, 1), self->type().rank());
  const sym::Int size = sizes_of(self)[dim];
  Value* indices[] = {places};
  lowering.define(node, 0, gathered(lowering, node, self, indices),
                  [&lowering, self, places, dim, size](IndexView index) {
                    ExprPool& pool = lowering.pool();
                    Index own(index.begin(), index.end());
                    ExprRef at = as_index(pool, lowering.element(places, index.subspan(dim, 1)));
                    own[dim] = lowering.checked(at, size);
                    return lowering.element(self, own);
                  });
  return true;
}

bool lower_gather(Lowering& lowering, const Node& node) {
  Value* self = graph::tensor_arg(node, 0);
  Value* places = graph::tensor_arg(node, 2);
  const int64_t rank = self->type().rank();
  if (rank == 0 || places->type().rank() != rank || !is_index(places) ||
      !never_empty(sizes_of(self)))
    return false;
  const int64_t dim = graph::normalize_dim(graph::int_arg(node, 1), rank);
  const sym::Int size = sizes_of(self)[dim];
  Value* indices[] = {places};
  lowering.define(node, 0, gathered(lowering, node, self, indices),
                  [&lowering, self, places, dim, size](IndexView index) {
                    ExprPool& pool = lowering.pool();
                    Index own(index.begin(), index.end());
                    own[dim] =
                        lowering.checked(as_index(pool, lowering.element(places, index)), size);
                    return lowering.element(self, own);
                  });
  return true;
}

// A copy whose element at an index is the operand's at another.
bool define_moved(Lowering& lowering, const Node& node, int size,
                  std::function<Index(ExprPool& pool, IndexView index)> map) {
  Value* self = graph::tensor_arg(node, 0);
  Value* operands[] = {self};
  lowering.define(node, 0, lowering.traits_over(node, operands, size),
                  [&lowering, self, map = std::move(map)](IndexView index) {
                    return lowering.element(self, map(lowering.pool(), index));
                  });
  return true;
}

bool lower_flip(Lowering& lowering, const Node& node) {
  const sym::Dims sizes = sizes_of(node.result());
  std::vector<int64_t> dims = graph::ints_arg(node, 1);
  for (int64_t& dim : dims) dim = graph::normalize_dim(dim, static_cast<int64_t>(sizes.size()));
  if (sizes.empty()) return false;
  return define_moved(lowering, node, 1, [sizes, dims](ExprPool& pool, IndexView index) {
    Index own(index.begin(), index.end());
    for (int64_t dim : dims)
      own[dim] = pool.binary(K::kSub, pool.index(sym::max(sizes[dim] - sym::Int(1), 0)), own[dim]);
    return own;
  });
}

bool lower_roll(Lowering& lowering, const Node& node) {
  const sym::Dims sizes = sizes_of(node.result());
  const std::vector<int64_t> shifts = graph::ints_arg(node, 1);
  std::vector<int64_t> dims;
  if (!graph::is_none(node, 2)) dims = graph::ints_arg(node, 2);
  if (dims.empty() || dims.size() != shifts.size() || !never_empty(sizes)) return false;
  for (int64_t& dim : dims) dim = graph::normalize_dim(dim, static_cast<int64_t>(sizes.size()));
  return define_moved(lowering, node, 2, [sizes, shifts, dims](ExprPool& pool, IndexView index) {
    Index own(index.begin(), index.end());
    for (size_t i = 0; i < dims.size(); ++i) {
      const sym::Int size = sizes[dims[i]];
      ExprRef moved = pool.add(own[dims[i]], pool.index(sym::mod(-shifts[i], size)));
      own[dims[i]] = pool.binary(K::kMod, moved, pool.index(size));
    }
    return own;
  });
}

bool lower_repeat(Lowering& lowering, const Node& node) {
  Value* self = graph::tensor_arg(node, 0);
  const sym::Dims sizes = sizes_of(self);
  lowering.realise_checked(self);  // a repeat of zero reads nothing
  if (!never_empty(sizes)) return false;
  return define_moved(lowering, node, 2, [sizes](ExprPool& pool, IndexView index) {
    IndexView tail = index.last(sizes.size());
    Index own;
    for (size_t i = 0; i < sizes.size(); ++i)
      own.push_back(pool.binary(K::kMod, tail[i], pool.index(sizes[i])));
    return own;
  });
}

// Zero where `column - row` is past the diagonal.
template <bool lower>
bool lower_triangle(Lowering& lowering, const Node& node) {
  Value* self = graph::tensor_arg(node, 0);
  const sym::Int diagonal = graph::sym_arg_or(node, 1, 0);
  Value* operands[] = {self};
  lowering.define(node, 0, lowering.traits_over(node, operands, 3),
                  [&lowering, self, diagonal](IndexView index) {
                    ExprPool& pool = lowering.pool();
                    ExprRef row = index[index.size() - 2], column = index.back();
                    ExprRef limit = pool.add(row, pool.index(diagonal));
                    ExprRef keep = lower ? pool.binary(K::kLe, column, limit)
                                         : pool.binary(K::kLe, limit, column);
                    const DType dtype = self->type().dtype, compute = compute_dtype(dtype);
                    ExprRef value = pool.cast(lowering.element(self, index), compute);
                    return pool.cast(pool.where(keep, value, pool.number(compute, 0)), dtype);
                  });
  return true;
}

}  // namespace

Handler indexing_handler(OpKind kind) {
  switch (kind) {
    case OpKind::kembedding:
      return lower_embedding;
    case OpKind::kindex_Tensor:
      return lower_index;
    case OpKind::kindex_select:
      return lower_index_select;
    case OpKind::kgather:
      return lower_gather;
    case OpKind::kflip:
      return lower_flip;
    case OpKind::kroll:
      return lower_roll;
    case OpKind::krepeat:
      return lower_repeat;
    case OpKind::ktril:
      return lower_triangle<true>;
    case OpKind::ktriu:
      return lower_triangle<false>;
    default:
      return nullptr;  // other families, or an extern call
  }
}

}  // namespace braze::loop::lowering
