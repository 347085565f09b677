// Views: each is a map from its indices to those of its base.
#include <algorithm>

#include "graph/op_kind.h"
#include "loop/lowering/lowering.h"

namespace braze::loop::lowering {
namespace {

using graph::OpKind;
using K = ExprKind;

using IndexMap = std::function<Index(ExprPool& pool, IndexView index)>;

bool define_mapped(Lowering& lowering, const Node& node, Value* base, sym::Int offset,
                   IndexMap map) {
  lowering.define_view(node, 0, base, offset,
                       [&lowering, base, map = std::move(map)](IndexView index) {
                         return lowering.element(base, map(lowering.pool(), index));
                       });
  return true;
}

bool lower_alias(Lowering& lowering, const Node& node) {
  Value* base = graph::tensor_arg(node, 0);
  lowering.define_view(node, 0, base, 0, [&lowering, base](IndexView index) {
    return lowering.element(base, index);
  });
  return true;
}

// The same elements in row-major order.
bool lower_view(Lowering& lowering, const Node& node) {
  Value* base = graph::tensor_arg(node, 0);
  sym::Dims from = sizes_of(base), to = sizes_of(node.result());
  if (from == to) return lower_alias(lowering, node);
  sym::Dims from_strides = sym::contiguous_strides(from), to_strides = sym::contiguous_strides(to);
  const bool empty = count_of(from) == sym::Int(0);
  if (!empty && !never_empty(from)) return false;  // a size that may be zero cannot be a divisor
  return define_mapped(
      lowering, node, base, 0,
      [from, from_strides, to_strides, empty](ExprPool& pool, IndexView index) {
        Index own(from.size(), pool.integer(0));
        if (empty) return own;
        ExprRef linear = dot(pool, index, to_strides);
        for (size_t i = 0; i < from.size(); ++i) {
          ExprRef outer = pool.binary(K::kFloorDiv, linear, pool.index(from_strides[i]));
          own[i] = i == 0 ? outer : pool.binary(K::kMod, outer, pool.index(from[i]));
          if (from[i] == sym::Int(1)) own[i] = pool.integer(0);
        }
        return own;
      });
}

// Result dim i is base dim `dims[i]`.
bool lower_permute(Lowering& lowering, const Node& node) {
  std::vector<int64_t> dims = graph::ints_arg(node, 1);
  for (int64_t& dim : dims) dim = graph::normalize_dim(dim, static_cast<int64_t>(dims.size()));
  return define_mapped(lowering, node, graph::tensor_arg(node, 0), 0,
                       [dims = std::move(dims)](ExprPool&, IndexView index) {
                         Index own(index.size());
                         for (size_t i = 0; i < index.size(); ++i) own[dims[i]] = index[i];
                         return own;
                       });
}

bool lower_expand(Lowering& lowering, const Node& node) {
  Value* base = graph::tensor_arg(node, 0);
  lowering.define_view(node, 0, base, 0, [&lowering, base](IndexView index) {
    return lowering.broadcast_element(base, index);
  });
  return true;
}

bool lower_slice(Lowering& lowering, const Node& node) {
  Value* base = graph::tensor_arg(node, 0);
  const int64_t rank = base->type().rank();
  if (rank == 0) return false;
  const int64_t dim = graph::normalize_dim(graph::int_arg_or(node, 1, 0), rank);
  const auto start = slice_start(graph::sym_arg_or(node, 2, 0), sizes_of(base)[dim]);
  if (!start) return false;
  const int64_t step = graph::int_arg_or(node, 4, 1);
  if (sizes_of(node.result()) != sizes_of(base)) lowering.realise_checked(base);
  return define_mapped(lowering, node, base, *start * strides_of(base)[dim],
                       [dim, start = *start, step](ExprPool& pool, IndexView index) {
                         Index own(index.begin(), index.end());
                         own[dim] = pool.add(pool.mul(own[dim], step), pool.index(start));
                         return own;
                       });
}

bool lower_select(Lowering& lowering, const Node& node) {
  Value* base = graph::tensor_arg(node, 0);
  const int64_t dim = graph::normalize_dim(graph::int_arg(node, 1), base->type().rank());
  const sym::Int size = sizes_of(base)[dim];
  sym::Int at = graph::sym_arg(node, 2);
  if (sym::known_less(at, 0)) at = at + size;
  if (!sym::known_at_least(at, 0) || !sym::known_less(at, size)) return false;
  if (size != sym::Int(1)) lowering.realise_checked(base);
  return define_mapped(lowering, node, base, at * strides_of(base)[dim],
                       [dim, at](ExprPool& pool, IndexView index) {
                         Index own(index.begin(), index.end());
                         own.insert(own.begin() + dim, pool.index(at));
                         return own;
                       });
}

bool lower_unsqueeze(Lowering& lowering, const Node& node) {
  Value* base = graph::tensor_arg(node, 0);
  const int64_t dim = graph::normalize_dim(graph::int_arg(node, 1), base->type().rank() + 1);
  return define_mapped(lowering, node, base, 0, [dim](ExprPool&, IndexView index) {
    Index own(index.begin(), index.end());
    own.erase(own.begin() + dim);
    return own;
  });
}

// Dims of size 1 are dropped: all of them, or those listed.
bool lower_squeeze(Lowering& lowering, const Node& node) {
  Value* base = graph::tensor_arg(node, 0);
  const sym::Dims sizes = sizes_of(base);
  const auto rank = static_cast<int64_t>(sizes.size());
  std::vector<bool> dropped(rank, node.op().kind == OpKind::ksqueeze);
  if (node.op().kind != OpKind::ksqueeze && rank > 0)
    for (int64_t dim : graph::ints_arg(node, 1)) dropped[graph::normalize_dim(dim, rank)] = true;
  for (int64_t i = 0; i < rank; ++i) dropped[i] = dropped[i] && sizes[i] == sym::Int(1);
  return define_mapped(lowering, node, base, 0, [dropped](ExprPool& pool, IndexView index) {
    Index own;
    size_t next = 0;
    for (bool drop : dropped) own.push_back(drop ? pool.integer(0) : index[next++]);
    return own;
  });
}

// as_strided: only over what is in memory. Its offset counts from the start of the storage, which
// for an input is known to the caller's tensor alone.
bool lower_as_strided(Lowering& lowering, const Node& node) {
  Value* base = graph::tensor_arg(node, 0);
  const sym::Int base_offset = base->type().offset;
  const sym::Int offset = graph::sym_arg_or(node, 3, base_offset) - base_offset;
  const sym::Dims strides = strides_of(node.result());
  const int buffer = lowering.buffer_of(base);
  const Buffer& memory = lowering.program().buffers[buffer];
  const bool view = memory.kind == Buffer::Kind::kView;
  const int root = view ? memory.base : buffer;
  const bool absolute = !graph::is_none(node, 3);
  if (absolute && lowering.program().buffers[root].kind != Buffer::Kind::kComputed) return false;
  const sym::Int start = offset + (view ? memory.view_offset : sym::Int(0));
  const DType dtype = base->type().dtype;
  lowering.define_view(node, 0, base, offset,
                       [&lowering, root, start, strides, dtype](IndexView index) {
                         ExprPool& pool = lowering.pool();
                         ExprRef at = pool.add(dot(pool, index, strides), pool.index(start));
                         return pool.load(root, dtype, at);
                       });
  return true;
}

bool lower_diagonal(Lowering& lowering, const Node& node) {
  Value* base = graph::tensor_arg(node, 0);
  const int64_t rank = base->type().rank();
  const int64_t shift = graph::int_arg_or(node, 1, 0);
  const int64_t rows = graph::normalize_dim(graph::int_arg_or(node, 2, 0), rank);
  const int64_t columns = graph::normalize_dim(graph::int_arg_or(node, 3, 1), rank);
  const int64_t row = std::max<int64_t>(0, -shift), column = std::max<int64_t>(0, shift);
  const sym::Dims strides = strides_of(base);
  lowering.realise_checked(base);
  const bool empty = count_of(sizes_of(node.result())) == sym::Int(0);
  const sym::Int offset =
      empty ? sym::Int(0) : sym::Int(row) * strides[rows] + sym::Int(column) * strides[columns];
  return define_mapped(lowering, node, base, offset, [=](ExprPool& pool, IndexView index) {
    Index own;
    size_t next = 0;
    for (int64_t i = 0; i < rank; ++i) {
      if (i == rows || i == columns) {
        own.push_back(pool.add(index.back(), pool.integer(i == rows ? row : column)));
      } else {
        own.push_back(index[next++]);
      }
    }
    return own;
  });
}

// Windows of dim `dim`; the last dim walks inside a window.
bool lower_unfold(Lowering& lowering, const Node& node) {
  Value* base = graph::tensor_arg(node, 0);
  if (base->type().rank() == 0) return false;
  const int64_t dim = graph::normalize_dim(graph::int_arg(node, 1), base->type().rank());
  const int64_t step = graph::int_arg(node, 3);
  lowering.realise_checked(base);
  return define_mapped(lowering, node, base, 0, [dim, step](ExprPool& pool, IndexView index) {
    Index own(index.begin(), index.end() - 1);
    own[dim] = pool.add(pool.mul(own[dim], step), index.back());
    return own;
  });
}

}  // namespace

Handler view_handler(OpKind kind) {
  switch (kind) {
    case OpKind::kalias:
    case OpKind::kdetach:
    case OpKind::klift_fresh:
      return lower_alias;
    case OpKind::kview:
    case OpKind::k_unsafe_view:
    case OpKind::k_reshape_alias:
      return lower_view;
    case OpKind::kpermute:
      return lower_permute;
    case OpKind::kexpand:
      return lower_expand;
    case OpKind::kslice_Tensor:
      return lower_slice;
    case OpKind::kselect_int:
      return lower_select;
    case OpKind::kunsqueeze:
      return lower_unsqueeze;
    case OpKind::ksqueeze:
    case OpKind::ksqueeze_dim:
    case OpKind::ksqueeze_dims:
      return lower_squeeze;
    case OpKind::kas_strided:
      return lower_as_strided;
    case OpKind::kdiagonal:
      return lower_diagonal;
    case OpKind::kunfold:
      return lower_unfold;
    default:
      return nullptr;  // other families, or an extern call
  }
}

}  // namespace braze::loop::lowering
