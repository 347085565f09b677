#include <algorithm>

#include "graph/arguments.h"
#include "graph/infer/infer.h"
#include "graph/infer/strides.h"

namespace braze::graph {
namespace {

using sym::Int;

// Sizes with a -1 worked out.
sym::Dims complete_sizes(sym::Dims sizes, Int numel) {
  Int known = 1;
  Int* unknown = nullptr;
  for (Int& size : sizes) {
    if (size == Int(-1))
      unknown = &size;
    else
      known = known * size;
  }
  if (unknown) *unknown = known == Int(0) ? Int(0) : sym::floordiv(numel, known);
  return sizes;
}

TensorType view(TensorType type, sym::Dims sizes) {
  sizes = complete_sizes(std::move(sizes), type.numel());
  // A guard may say that they are equal where the expressions do not show it.
  BRAZE_CHECK(sym::product(sizes).hint() == type.numel().hint(), "view of ", to_string(type),
              " with another number of elements");
  std::optional<sym::Dims> strides = view_strides(type, sizes);
  BRAZE_CHECK(strides, "no view of ", to_string(type), " has these sizes");
  type.sizes = std::move(sizes);
  type.strides = std::move(*strides);
  return type;
}

TensorType permute(const TensorType& type, std::span<const int64_t> order) {
  TensorType result = type;
  BRAZE_CHECK(static_cast<int64_t>(order.size()) == type.rank(), "permutation of another rank");
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t from = normalize_dim(order[i], type.rank());
    result.sizes[i] = type.sizes[from];
    result.strides[i] = type.strides[from];
  }
  return result;
}

TensorType transpose(TensorType type, int64_t a, int64_t b) {
  if (type.rank() == 0) return type;
  a = normalize_dim(a, type.rank());
  b = normalize_dim(b, type.rank());
  std::swap(type.sizes[a], type.sizes[b]);
  std::swap(type.strides[a], type.strides[b]);
  return type;
}

TensorType expand(const TensorType& type, const sym::Dims& sizes) {
  TensorType result = type;
  const size_t added = sizes.size() - type.sizes.size();
  BRAZE_CHECK(sizes.size() >= type.sizes.size(), "expand to a lower rank");
  result.sizes = sizes;
  result.strides.assign(sizes.size(), 0);
  if (type.rank() == 0) return result;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (i < added) {
      // A new dimension gets the extent of what is inside of it.
      if (sizes[i] == Int(1)) result.strides[i] = result.sizes[i + 1] * result.strides[i + 1];
      continue;
    }
    const Int old = type.sizes[i - added];
    if (sizes[i] == Int(-1)) result.sizes[i] = old;
    const bool broadcast = old == Int(1) && result.sizes[i] != Int(1);
    BRAZE_CHECK(broadcast || old == result.sizes[i], "expand of a dimension of size ",
                sym::to_string(old), " to ", sym::to_string(result.sizes[i]));
    result.strides[i] = broadcast ? Int(0) : type.strides[i - added];
  }
  return result;
}

TensorType select(TensorType type, int64_t dim, Int index) {
  dim = normalize_dim(dim, type.rank());
  if (index.hint() < 0) index = index + type.sizes[dim];
  type.offset = type.offset + index * type.strides[dim];
  type.sizes.erase(type.sizes.begin() + dim);
  type.strides.erase(type.strides.begin() + dim);
  return type;
}

TensorType slice(TensorType type, ArgumentList list) {
  const int64_t dim = normalize_dim(int_arg_or(list, 1, 0), type.rank());
  const Int size = type.sizes[dim], step = sym_arg_or(list, 4, 1);
  auto clamp_end = [&](Int end) {
    if (end.hint() < 0) end = end + size;
    if (end.hint() < 0) return Int(0);
    return end.hint() > size.hint() ? size : end;
  };
  const Int start = clamp_end(sym_arg_or(list, 2, 0));
  Int end = clamp_end(sym_arg_or(list, 3, size));
  if (end.hint() < start.hint()) end = start;
  type.offset = type.offset + start * type.strides[dim];
  type.sizes[dim] = sym::floordiv(end - start + step - 1, step);
  type.strides[dim] = type.strides[dim] * step;
  return type;
}

TensorType unsqueeze(TensorType type, int64_t dim) {
  dim = normalize_dim(dim, type.rank() + 1);
  const Int stride = dim < type.rank() ? type.sizes[dim] * type.strides[dim] : Int(1);
  type.sizes.insert(type.sizes.begin() + dim, 1);
  type.strides.insert(type.strides.begin() + dim, stride);
  return type;
}

TensorType squeeze(const TensorType& type, const std::vector<int64_t>& dims) {
  TensorType result = type;
  result.sizes.clear();
  result.strides.clear();
  for (int64_t i = 0; i < type.rank(); ++i) {
    if (type.sizes[i] == Int(1) && std::find(dims.begin(), dims.end(), i) != dims.end()) continue;
    result.sizes.push_back(type.sizes[i]);
    result.strides.push_back(type.strides[i]);
  }
  return result;
}

TensorType diagonal(TensorType type, int64_t offset, int64_t dim1, int64_t dim2) {
  dim1 = normalize_dim(dim1, type.rank());
  dim2 = normalize_dim(dim2, type.rank());
  const int64_t rows = type.sizes[dim1].hint(), columns = type.sizes[dim2].hint();
  const int64_t size = std::max<int64_t>(
      offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns), 0);
  if (size > 0)
    type.offset = type.offset + (offset >= 0 ? Int(offset) * type.strides[dim2]
                                             : Int(-offset) * type.strides[dim1]);
  const Int stride = type.strides[dim1] + type.strides[dim2];
  for (int64_t dim : {std::max(dim1, dim2), std::min(dim1, dim2)}) {
    type.sizes.erase(type.sizes.begin() + dim);
    type.strides.erase(type.strides.begin() + dim);
  }
  type.sizes.push_back(size);
  type.strides.push_back(stride);
  return type;
}

TensorType unfold(TensorType type, int64_t dim, Int size, Int step) {
  if (type.rank() == 0) {
    type.sizes = {size};
    type.strides = {1};
    return type;
  }
  dim = normalize_dim(dim, type.rank());
  const Int stride = type.strides[dim];
  type.sizes[dim] = sym::floordiv(type.sizes[dim] - size, step) + 1;
  type.strides[dim] = stride * step;
  type.sizes.push_back(size);
  type.strides.push_back(stride);
  return type;
}

std::vector<TensorType> split(const TensorType& type, const sym::Dims& pieces, int64_t dim) {
  dim = normalize_dim(dim, type.rank());
  std::vector<TensorType> types;
  Int start = 0;
  for (const Int& piece : pieces) {
    TensorType part = type;
    part.sizes[dim] = piece;
    part.offset = type.offset + start * type.strides[dim];
    types.push_back(std::move(part));
    start = start + piece;
  }
  return types;
}

// As many as the sizes seen make of it; the last one is the rest.
sym::Dims equal_pieces(const Int& size, const Int& piece) {
  sym::Dims pieces;
  Int rest = size;
  for (; piece.hint() < rest.hint(); rest = rest - piece) pieces.push_back(piece);
  pieces.push_back(rest);
  return pieces;
}

std::vector<int64_t> normalized(std::vector<int64_t> dims, int64_t rank) {
  for (int64_t& dim : dims) dim = normalize_dim(dim, rank);
  return dims;
}

}  // namespace

std::optional<std::vector<TensorType>> infer_view(OpKind kind, std::span<const Argument> args) {
  const ArgumentList list(args);
  const TensorType& self = tensor_arg(list, 0)->type();
  switch (kind) {
    case OpKind::kalias:
    case OpKind::kdetach:
    case OpKind::klift_fresh:
      return std::vector{self};
    case OpKind::kview:
    case OpKind::k_unsafe_view:
      return std::vector{view(self, dims_arg(list, 1))};
    case OpKind::k_reshape_alias: {
      TensorType type = self;
      type.sizes = dims_arg(list, 1);
      type.strides = dims_arg(list, 2);
      return std::vector{type};
    }
    case OpKind::ktranspose_int:
      return std::vector{transpose(self, int_arg(list, 1), int_arg(list, 2))};
    case OpKind::kt:
      return std::vector{self.rank() < 2 ? self : transpose(self, 0, 1)};
    case OpKind::kpermute:
      return std::vector{permute(self, ints_arg(list, 1))};
    case OpKind::kexpand:
      return std::vector{expand(self, dims_arg(list, 1))};
    case OpKind::kslice_Tensor:
      return std::vector{slice(self, list)};
    case OpKind::kselect_int:
      return std::vector{select(self, int_arg(list, 1), sym_arg(list, 2))};
    case OpKind::kunsqueeze:
      return std::vector{unsqueeze(self, int_arg(list, 1))};
    case OpKind::ksqueeze:
      return std::vector{squeeze(self, reduction_dims_arg(list, 1, self.rank()))};
    case OpKind::ksqueeze_dim:
    case OpKind::ksqueeze_dims:
      return std::vector{squeeze(self, normalized(ints_arg(list, 1), self.rank()))};
    case OpKind::kas_strided: {
      TensorType type = self;
      type.sizes = dims_arg(list, 1);
      type.strides = dims_arg(list, 2);
      type.offset = sym_arg_or(list, 3, self.offset);
      return std::vector{type};
    }
    case OpKind::kdiagonal:
      return std::vector{
          diagonal(self, int_arg_or(list, 1, 0), int_arg_or(list, 2, 0), int_arg_or(list, 3, 1))};
    case OpKind::kunfold:
      return std::vector{unfold(self, int_arg(list, 1), sym_arg(list, 2), sym_arg(list, 3))};
    case OpKind::ksplit_Tensor: {
      const int64_t dim = normalize_dim(int_arg_or(list, 2, 0), self.rank());
      return split(self, equal_pieces(self.sizes[dim], sym_arg(list, 1)), dim);
    }
    case OpKind::ksplit_with_sizes:
      return split(self, dims_arg(list, 1), int_arg_or(list, 2, 0));
    case OpKind::kunbind_int: {
      const int64_t dim = normalize_dim(int_arg_or(list, 1, 0), self.rank());
      std::vector<TensorType> types;
      for (int64_t i = 0; i < self.sizes[dim].constant(); ++i)
        types.push_back(select(self, dim, i));
      return types;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace braze::graph
