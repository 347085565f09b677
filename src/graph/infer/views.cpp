// Views: every result lies in the memory of argument 0.
#include <algorithm>

#include "graph/infer/call.h"

namespace braze::graph {
namespace {

using sym::Int;

TensorType without_dim(TensorType type, int64_t dim) {
  type.sizes.erase(type.sizes.begin() + dim);
  type.strides.erase(type.strides.begin() + dim);
  return type;
}

bool same(const InferCall& call) { return call.give(call.tensor(0)); }

// self, size: with a -1 worked out
bool view(const InferCall& call) {
  TensorType type = call.tensor(0);
  const std::span<const Int> asked = call.dims(1);
  sym::Dims sizes(asked.begin(), asked.end());
  Int known = 1;
  Int* inferred = nullptr;
  for (Int& size : sizes) {
    if (size == Int(-1))
      inferred = &size;
    else
      known = known * size;
  }
  const Int elements = type.numel();
  const bool empty = is_empty(type.sizes);
  if (inferred) {
    if (call.ask.equal(known, 0)) return false;
    *inferred = empty ? Int(0) : sym::floordiv(elements, known);
    known = empty ? Int(0) : known * *inferred;
  }
  // A guard may say that they are equal where the expressions do not show it.
  if (!call.ask.fit(elements, known)) return false;
  const bool row_major = !empty && is_row_major(type, call.ask);
  std::optional<sym::Dims> strides =
      row_major ? row_major_strides(sizes, call.ask) : view_strides(type, sizes, call.ask);
  if (!strides) {
    // Dimensions of size 1 and empty tensors have more views: a trace makes sure that it is
    // neither.
    for (const Int& size : type.sizes)
      if (!size.is_constant() && !call.ask.expect_at_least(size, 2)) return false;
    return false;
  }
  type.sizes = std::move(sizes);
  type.strides = std::move(*strides);
  return call.give(std::move(type), row_major);
}

// self, size, stride: what reshape calls when the memory has such a view.
bool reshape_alias(const InferCall& call) {
  TensorType type = call.tensor(0);
  const std::span<const Int> sizes = call.dims(1), strides = call.dims(2);
  // What works out the strides of symbolic sizes has 0 outside of an empty dimension.
  if (is_empty(sizes) && !call.ask.all_equal(sizes, type.sizes))
    type.strides = row_major_strides(sizes, call.ask);
  else
    type.strides.assign(strides.begin(), strides.end());
  type.sizes.assign(sizes.begin(), sizes.end());
  return call.give(std::move(type));
}

bool swap_dims(const InferCall& call, int64_t a, int64_t b) {
  TensorType type = call.tensor(0);
  std::swap(type.sizes[a], type.sizes[b]);
  std::swap(type.strides[a], type.strides[b]);
  return call.give(std::move(type));
}

bool transpose(const InferCall& call) {
  const int64_t rank = call.tensor(0).rank();
  const auto a = call.dim(1, rank), b = call.dim(2, rank);
  if (!a || !b) return false;
  return rank == 0 ? same(call) : swap_dims(call, *a, *b);
}

bool t(const InferCall& call) {
  const int64_t rank = call.tensor(0).rank();
  if (rank > 2) return false;
  return rank < 2 ? same(call) : swap_dims(call, 0, 1);
}

// self, dims
bool permute(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const std::span<const Int> order = call.dims(1);
  if (order.size() != self.sizes.size()) return false;
  TensorType type = self;
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t dim = order[i].constant();
    if (dim < -self.rank() || dim >= self.rank()) return false;
    const int64_t from = dim < 0 ? dim + self.rank() : dim;
    type.sizes[i] = self.sizes[from];
    type.strides[i] = self.strides[from];
  }
  return call.give(std::move(type));
}

// self, size
bool expand(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const std::span<const Int> asked = call.dims(1);
  if (asked.size() < self.sizes.size()) return false;
  const size_t first = asked.size() - self.sizes.size();
  for (size_t i = 0; i < asked.size(); ++i)  // -1: as it is, of a dimension that there is
    if (asked[i].is_constant() && asked[i].constant() < (i < first ? 0 : -1)) return false;
  TensorType type = self;
  type.sizes.assign(asked.begin(), asked.end());
  type.strides.assign(asked.size(), 0);
  for (size_t i = first; i < asked.size(); ++i) {
    const Int size = self.sizes[i - first];
    if (type.sizes[i] == Int(-1)) type.sizes[i] = size;
    if (call.ask.equal(size, type.sizes[i]))
      type.strides[i] = self.strides[i - first];
    else if (!call.ask.equal(size, 1))
      return false;
  }
  // A new dimension gets the extent of what is inside of it.
  if (self.rank() > 0)
    for (size_t i = first; i-- > 0;)
      if (type.sizes[i] == Int(1)) type.strides[i] = type.sizes[i + 1] * type.strides[i + 1];
  return call.give(std::move(type));
}

// An end of a slice as Python counts: from the end if negative, within the size.
Int clamped(Int index, const Int& size, SizeQuestions& ask) {
  if (ask.less(index, 0)) index = index + size;
  if (ask.less(index, 0)) return 0;
  return ask.less(size, index) ? size : index;
}

struct SliceEnds {
  Int start, end;
};

SliceEnds slice_ends(SizeQuestions& ask, const Int& size, const Int& from, const Int& to) {
  SliceEnds ends{clamped(from, size, ask), to == Int(INT64_MAX) ? size : clamped(to, size, ask)};
  if (ask.less(ends.end, ends.start)) ends.end = ends.start;
  return ends;
}

Int sliced_size(const SliceEnds& ends, const Int& step) {
  const Int length = ends.end - ends.start;
  return step == Int(1) ? length : sym::floordiv(length + step - 1, step);
}

// self, dim, start, end, step
bool slice(const InferCall& call) {
  TensorType type = call.tensor(0);
  const auto dim = call.absent(1) ? std::optional<int64_t>(0) : call.dim(1, type.rank());
  if (type.rank() == 0 || !dim) return false;
  const Int size = type.sizes[*dim], step = sym_arg_or(call.list(), 4, 1);
  const bool usual = step.is_constant() && step.constant() > 0;
  if (!usual && !call.checked) return false;
  const SliceEnds ends = slice_ends(call.ask, size, sym_arg_or(call.list(), 2, 0),
                                    sym_arg_or(call.list(), 3, INT64_MAX));
  type.offset = type.offset + ends.start * type.strides[*dim];
  type.sizes[*dim] = sliced_size(ends, step);
  type.strides[*dim] = type.strides[*dim] * step;
  return call.give(std::move(type));
}

// grad_output, input_sizes, dim, start, end, step
bool slice_backward(const InferCall& call) {
  const TensorType& grad = call.tensor(0);
  const std::span<const Int> sizes = call.dims(1);
  const auto dim = call.dim(2, grad.rank());
  const Int step = sym_arg(call.list(), 5);
  if (grad.rank() == 0 || !dim || sizes.size() != grad.sizes.size() || !step.is_constant() ||
      step.constant() < 1)
    return false;
  const Int size = sizes[*dim];
  sym::Dims sliced(sizes.begin(), sizes.end());
  const SliceEnds ends =
      slice_ends(call.ask, size, sym_arg(call.list(), 3), sym_arg(call.list(), 4));
  sliced[*dim] = sliced_size(ends, step);
  return call.ask.all_fit(grad.sizes, sliced) &&
         call.give_fresh({sizes.begin(), sizes.end()}, grad.dtype, grad.device);
}

// self, dim, index
bool select(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const auto dim = call.dim(1, self.rank());
  if (self.rank() == 0 || !dim) return false;
  const Int size = self.sizes[*dim];
  Int index = sym_arg(call.list(), 2);
  if (call.ask.less(index, 0)) index = index + size;
  if (!call.checked && (call.ask.less(index, 0) || !call.ask.less(index, size))) return false;
  const Int offset = self.offset + index * self.strides[*dim];
  TensorType type = without_dim(self, *dim);
  type.offset = offset;
  return call.give(std::move(type));
}

// self, dim
bool unsqueeze(const InferCall& call) {
  TensorType type = call.tensor(0);
  const auto dim = call.dim(1, type.rank() + 1);
  if (!dim) return false;
  const Int stride = *dim < type.rank() ? type.sizes[*dim] * type.strides[*dim] : Int(1);
  type.sizes.insert(type.sizes.begin() + *dim, 1);
  type.strides.insert(type.strides.begin() + *dim, stride);
  return call.give(std::move(type));
}

// `which(i)`: dimension i goes if its size is 1.
template <class Which>
bool squeeze(const InferCall& call, const Which& which) {
  const TensorType& self = call.tensor(0);
  TensorType type = self;
  type.sizes.clear();
  type.strides.clear();
  for (int64_t i = 0; i < self.rank(); ++i) {
    if (which(i) && call.ask.equal(self.sizes[i], 1)) continue;
    type.sizes.push_back(self.sizes[i]);
    type.strides.push_back(self.strides[i]);
  }
  return call.give(std::move(type));
}

bool squeeze_all(const InferCall& call) {
  return squeeze(call, [](int64_t) { return true; });
}

// self, dim
bool squeeze_dim(const InferCall& call) {
  const auto dim = call.dim(1, call.tensor(0).rank());
  return dim && squeeze(call, [&](int64_t i) { return i == *dim; });
}

// self, dims
bool squeeze_dims(const InferCall& call) {
  const int64_t rank = call.tensor(0).rank();
  std::vector<int64_t> dims;
  for (const Int& dim : call.dims(1)) dims.push_back(normalize_dim(dim.constant(), rank));
  return squeeze(call, [&](int64_t i) { return std::ranges::find(dims, i) != dims.end(); });
}

// self, size, stride, storage_offset
bool as_strided(const InferCall& call) {
  TensorType type = call.tensor(0);
  type.sizes = dims_arg(call.list(), 1);
  type.strides = dims_arg(call.list(), 2);
  type.offset = sym_arg_or(call.list(), 3, type.offset);
  return call.give(std::move(type));
}

struct Diagonal {
  int64_t offset, dim1, dim2;
  Int size;
};

// Of a matrix among dimensions of these sizes, by the arguments from `first` on: offset, dim1,
// dim2.
std::optional<Diagonal> diagonal_of(const InferCall& call, int first, std::span<const Int> sizes) {
  const auto rank = static_cast<int64_t>(sizes.size());
  const int64_t offset = int_arg_or(call.list(), first, 0);
  const int64_t dims[] = {int_arg_or(call.list(), first + 1, 0),
                          int_arg_or(call.list(), first + 2, 1)};
  for (const int64_t dim : dims)
    if (dim < -rank || dim >= rank) return std::nullopt;
  const int64_t dim1 = normalize_dim(dims[0], rank), dim2 = normalize_dim(dims[1], rank);
  if (dim1 == dim2) return std::nullopt;
  const Int rows = sizes[dim1] + std::min<int64_t>(offset, 0);
  const Int columns = sizes[dim2] - std::max<int64_t>(offset, 0);
  const Int shorter = call.ask.less(rows, columns) ? rows : columns;
  return Diagonal{offset, dim1, dim2, call.ask.less(shorter, 1) ? Int(0) : shorter};
}

// grad_output, input_sizes, offset, dim1, dim2
bool diagonal_backward(const InferCall& call) {
  const TensorType& grad = call.tensor(0);
  const std::span<const Int> sizes = call.dims(1);
  const auto found = diagonal_of(call, 2, sizes);
  if (!found) return false;
  sym::Dims diagonals;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (static_cast<int64_t>(i) != found->dim1 && static_cast<int64_t>(i) != found->dim2)
      diagonals.push_back(sizes[i]);
  diagonals.push_back(found->size);
  return call.ask.all_fit(grad.sizes, diagonals) &&
         call.give_fresh({sizes.begin(), sizes.end()}, grad.dtype, grad.device);
}

// self, offset, dim1, dim2
bool diagonal(const InferCall& call) {
  TensorType type = call.tensor(0);
  const auto found = diagonal_of(call, 1, type.sizes);
  if (!found) return false;
  const auto& [offset, dim1, dim2, size] = *found;
  if (size != Int(0))
    type.offset = type.offset + (offset >= 0 ? Int(offset) * type.strides[dim2]
                                             : Int(-offset) * type.strides[dim1]);
  const Int stride = type.strides[dim1] + type.strides[dim2];
  type = without_dim(without_dim(std::move(type), std::max(dim1, dim2)), std::min(dim1, dim2));
  type.sizes.push_back(size);
  type.strides.push_back(stride);
  return call.give(std::move(type));
}

// self, dimension, size, step
bool unfold(const InferCall& call) {
  TensorType type = call.tensor(0);
  const Int size = sym_arg(call.list(), 2), step = sym_arg(call.list(), 3);
  Int stride = 1;
  if (!call.checked) {
    const auto dim = call.dim(1, type.rank());
    if (type.rank() == 0 || !dim || call.ask.less(step, 1) || call.ask.less(size, 0) ||
        !call.ask.at_most(size, type.sizes[*dim]))
      return false;
  }
  if (type.rank() > 0) {
    const int64_t dim = normalize_dim(int_arg(call.list(), 1), type.rank());
    stride = type.strides[dim];
    type.sizes[dim] = sym::floordiv(type.sizes[dim] - size, step) + 1;
    type.strides[dim] = stride * step;
  }
  type.sizes.push_back(size);
  type.strides.push_back(stride);
  return call.give(std::move(type));
}

// grad_in, input_sizes, dim, size, step
bool unfold_backward(const InferCall& call) {
  const TensorType& grad = call.tensor(0);
  const std::span<const Int> sizes = call.dims(1);
  const Int size = sym_arg(call.list(), 3), step = sym_arg(call.list(), 4);
  const auto rank = static_cast<int64_t>(sizes.size());
  const auto dim = call.dim(2, rank);
  if (rank == 0 || !dim || call.ask.less(step, 1)) return false;
  sym::Dims unfolded(sizes.begin(), sizes.end());
  unfolded[*dim] = sym::floordiv(sizes[*dim] - size, step) + 1;
  unfolded.push_back(size);
  return grad.rank() == rank + 1 && call.ask.all_fit(grad.sizes, unfolded) &&
         call.give_fresh({sizes.begin(), sizes.end()}, grad.dtype, grad.device);
}

bool give_parts(const InferCall& call, std::span<const Int> lengths, int64_t dim) {
  const TensorType& self = call.tensor(0);
  Int begin = 0;
  for (const Int& length : lengths) {
    TensorType part = self;
    part.sizes[dim] = length;
    part.offset = self.offset + begin * self.strides[dim];
    call.give(std::move(part));
    begin = begin + length;
  }
  return true;
}

std::optional<int64_t> split_dim(const InferCall& call, int position) {
  const int64_t rank = call.tensor(0).rank();
  if (rank == 0) return std::nullopt;
  return call.absent(position) ? std::optional<int64_t>(0) : call.dim(position, rank);
}

// self, size of a part, dim: the last part is the rest.
bool split(const InferCall& call) {
  const auto dim = split_dim(call, 2);
  if (!dim) return false;
  const Int size = call.tensor(0).sizes[*dim], length = sym_arg(call.list(), 1);
  if (!call.ask.less(0, length)) return false;
  const int64_t parts = call.ask.number(sym::floordiv(size + length - 1, length));
  const int64_t count = std::max<int64_t>(parts, 1);  // of nothing there is one
  sym::Dims lengths(count, length);
  lengths.back() = size - length * (count - 1);
  return give_parts(call, lengths, *dim);
}

// self, sizes of the parts, dim
bool split_with_sizes(const InferCall& call) {
  const auto dim = split_dim(call, 2);
  if (!dim) return false;
  Int sum = 0;
  for (const Int& length : call.dims(1)) {
    if (call.ask.less(length, 0)) return false;
    sum = sum + length;
  }
  return call.ask.fit(sum, call.tensor(0).sizes[*dim]) && give_parts(call, call.dims(1), *dim);
}

// self, dim
bool unbind(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const auto dim = split_dim(call, 1);
  if (!dim) return false;
  const int64_t count = call.ask.number(self.sizes[*dim]);
  const TensorType part = without_dim(self, *dim);
  for (int64_t i = 0; i < count; ++i) {
    TensorType type = part;
    type.offset = self.offset + self.strides[*dim] * i;
    call.give(std::move(type));
  }
  return true;
}

constexpr InferEntry kViewsRules[] = {
    {"aten.t", t, InferUse::kAlways},
    {"aten.transpose.int", transpose, InferUse::kAlways},
    {"aten.permute", permute},
    {"aten.detach", same, InferUse::kAlways},
    {"aten.alias", same, InferUse::kAlways},
    {"aten.lift_fresh", same, InferUse::kPasses},
    {"aten.view", view},
    {"aten._unsafe_view", view},
    {"aten._reshape_alias", reshape_alias},
    {"aten.expand", expand},
    {"aten.unsqueeze", unsqueeze, InferUse::kAlways},
    {"aten.select.int", select},
    {"aten.slice.Tensor", slice},
    {"aten.slice_backward", slice_backward, InferUse::kAlways},
    {"aten.split.Tensor", split},
    {"aten.split_with_sizes", split_with_sizes},
    {"aten.unbind.int", unbind},
    {"aten.squeeze", squeeze_all, InferUse::kPasses},
    {"aten.squeeze.dim", squeeze_dim},
    {"aten.squeeze.dims", squeeze_dims, InferUse::kPasses},
    {"aten.as_strided", as_strided, InferUse::kPasses},
    {"aten.diagonal", diagonal},
    {"aten.diagonal_backward", diagonal_backward, InferUse::kAlways},
    {"aten.unfold", unfold},
    {"aten.unfold_backward", unfold_backward, InferUse::kAlways},
};

}  // namespace

std::span<const InferEntry> infer_views() { return kViewsRules; }

}  // namespace braze::graph
