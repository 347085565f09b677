// Views of symbolic tensors, and the simplest ones of concrete tensors too, which are cheaper here
// than by PyTorch's kernels.
#include <c10/core/WrapDimMinimal.h>

#include <algorithm>

#include "trace/fake_tensor.h"
#include "trace/shapes/families.h"

namespace braze::trace {
namespace {

bool give_view(const ShapeCall& call, const at::Tensor& base, const Dims& sizes,
               const Dims& strides, const c10::SymInt& offset) {
  return call.give(make_fake_view(base, sizes, strides, offset));
}

bool transpose_dims(const ShapeCall& call, int64_t a, int64_t b) {
  const at::Tensor base = call.tensor(0);
  Dims sizes = sizes_of(base), strides = strides_of(base);
  std::swap(sizes[a], sizes[b]);
  std::swap(strides[a], strides[b]);
  return give_view(call, base, sizes, strides, base.sym_storage_offset());
}

bool t(const ShapeCall& call) {
  if (call.tensor(0).dim() != 2) return false;
  return transpose_dims(call, 0, 1);
}

bool transpose(const ShapeCall& call) {
  const int64_t rank = call.tensor(0).dim();
  if (rank == 0) return false;
  return transpose_dims(call, c10::maybe_wrap_dim(call[1].toInt(), rank),
                        c10::maybe_wrap_dim(call[2].toInt(), rank));
}

bool permute(const ShapeCall& call) {
  const at::Tensor base = call.tensor(0);
  const auto order = call[1].toIntVector();
  if (static_cast<int64_t>(order.size()) != base.dim()) return false;
  Dims sizes, strides;
  for (int64_t dim : order) {
    const int64_t wrapped = c10::maybe_wrap_dim(dim, base.dim());
    sizes.push_back(base.sym_size(wrapped));
    strides.push_back(base.sym_stride(wrapped));
  }
  return give_view(call, base, sizes, strides, base.sym_storage_offset());
}

bool detach(const ShapeCall& call) {
  const at::Tensor base = call.tensor(0);
  return give_view(call, base, sizes_of(base), strides_of(base), base.sym_storage_offset());
}

// Strides of a view in other sizes, as at::detail::computeStride works them out; nothing if the
// memory has no such view.
std::optional<Dims> strides_of_view(const at::Tensor& base, const Dims& sizes) {
  Dims strides(sizes.size(), 1);
  if (base.dim() == 0) return strides;
  auto next = static_cast<int64_t>(sizes.size()) - 1;
  c10::SymInt chunk_stride = base.sym_stride(-1), chunk = 1, covered = 1;
  for (int64_t dim = base.dim() - 1; dim >= 0; --dim) {
    chunk = times(chunk, base.sym_size(dim));
    const bool joined = dim > 0 && (is(base.sym_size(dim - 1), 1) ||
                                    equal(base.sym_stride(dim - 1), times(chunk, chunk_stride)));
    if (joined) continue;
    while (next >= 0 && (is(sizes[next], 1) || less(covered, chunk))) {
      strides[next] = times(covered, chunk_stride);
      covered = times(covered, sizes[next--]);
    }
    if (!equal(covered, chunk)) return std::nullopt;
    if (dim > 0) {
      chunk_stride = base.sym_stride(dim - 1);
      chunk = covered = 1;
    }
  }
  if (next >= 0) return std::nullopt;
  return strides;
}

bool view(const ShapeCall& call) {
  const at::Tensor base = call.tensor(0);
  Dims sizes = dims_in(call[1]);
  c10::SymInt known = 1;
  int inferred = -1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (is(sizes[i], -1))
      inferred = static_cast<int>(i);
    else
      known = times(known, sizes[i]);
  }
  c10::SymInt elements = 1;
  for (const c10::SymInt& size : base.sym_sizes()) elements = times(elements, size);
  const bool empty = std::any_of(base.sym_sizes().begin(), base.sym_sizes().end(),
                                 [](const c10::SymInt& size) { return is(size, 0); });
  if (inferred >= 0) {
    if (equal(known, 0)) return false;
    sizes[inferred] = empty ? c10::SymInt(0) : elements / known;
    known = empty ? c10::SymInt(0) : times(known, sizes[inferred]);
  }
  TORCH_CHECK(equal(elements, known), "shape is invalid for input of size ", elements);
  if (empty) {
    const bool same = all_equal(sizes, base.sym_sizes());
    return give_view(call, base, sizes, same ? strides_of(base) : contiguous_strides(sizes),
                     base.sym_storage_offset());
  }
  if (is_row_major(base)) {
    const at::Tensor made =
        make_fake_view(base, sizes, contiguous_strides(sizes), base.sym_storage_offset());
    as_fake(made)->assume_row_major();
    return call.give(made);
  }
  const std::optional<Dims> strides = strides_of_view(base, sizes);
  // Dimensions of size 1 and empty tensors have more views.
  if (!strides)
    for (const c10::SymInt& size : base.sym_sizes())
      if (size.is_heap_allocated() && !expect_at_least(size, 2)) return false;
  TORCH_CHECK(strides, "view size is not compatible with input tensor's size and stride");
  return give_view(call, base, sizes, *strides, base.sym_storage_offset());
}

// An end of a slice as Python counts: from the end if negative, within the size.
c10::SymInt clamp_index(c10::SymInt index, const c10::SymInt& size) {
  if (less(index, 0)) index = index + size;
  if (less(index, 0)) return 0;
  return less(size, index) ? size : index;
}

// self, dim, start, end, step
bool slice(const ShapeCall& call) {
  const at::Tensor base = call.tensor(0);
  if (base.dim() == 0) return false;
  const int64_t dim = c10::maybe_wrap_dim(call[1].toInt(), base.dim());
  const c10::SymInt size = base.sym_size(dim), step = int_in(call[4]);
  if (step.is_heap_allocated() || step.as_int_unchecked() <= 0) return false;
  const c10::SymInt start = call[2].isNone() ? c10::SymInt(0) : clamp_index(int_in(call[2]), size);
  const bool to_end = call[3].isNone() || is(int_in(call[3]), INT64_MAX);
  c10::SymInt end = to_end ? size : clamp_index(int_in(call[3]), size);
  if (less(end, start)) end = start;
  Dims sizes = sizes_of(base), strides = strides_of(base);
  const c10::SymInt offset = plus(base.sym_storage_offset(), times(start, strides[dim]));
  sizes[dim] = is(step, 1) ? minus(end, start) : (end - start + step - 1) / step;
  strides[dim] = times(strides[dim], step);
  return give_view(call, base, sizes, strides, offset);
}

std::vector<at::Tensor> parts_of(const at::Tensor& base, int64_t dim,
                                 const std::vector<c10::SymInt>& lengths) {
  std::vector<at::Tensor> parts;
  c10::SymInt begin = 0;
  for (const c10::SymInt& length : lengths) {
    Dims sizes = sizes_of(base);
    sizes[dim] = length;
    parts.push_back(
        make_fake_view(base, sizes, strides_of(base),
                       plus(base.sym_storage_offset(), times(begin, base.sym_stride(dim)))));
    begin = plus(begin, length);
  }
  return parts;
}

// self, size of a part, dim
bool split(const ShapeCall& call) {
  const at::Tensor base = call.tensor(0);
  if (base.dim() == 0) return false;
  const int64_t dim = c10::maybe_wrap_dim(call[2].toInt(), base.dim());
  const c10::SymInt size = base.sym_size(dim), length = int_in(call[1]);
  if (!less(0, length)) return false;
  const int64_t count = ((size + length - 1) / length).guard_int(__FILE__, __LINE__);
  if (count == 0) return false;
  std::vector<c10::SymInt> lengths(count, length);
  lengths.back() = size - length * (count - 1);
  return call.give(parts_of(base, dim, lengths));
}

// self, sizes of the parts, dim
bool split_with_sizes(const ShapeCall& call) {
  const at::Tensor base = call.tensor(0);
  if (base.dim() == 0) return false;
  const int64_t dim = c10::maybe_wrap_dim(call[2].toInt(), base.dim());
  std::vector<c10::SymInt> lengths;
  c10::SymInt sum = 0;
  for (const c10::SymInt& length : dims_in(call[1])) {
    if (less(length, 0)) return false;
    lengths.push_back(length);
    sum = sum + length;
  }
  if (!equal(sum, base.sym_size(dim))) return false;
  return call.give(parts_of(base, dim, lengths));
}

// self, dim
bool unbind(const ShapeCall& call) {
  const at::Tensor base = call.tensor(0);
  if (base.dim() == 0) return false;
  const int64_t dim = c10::maybe_wrap_dim(call[1].toInt(), base.dim());
  const int64_t count = base.sym_size(dim).guard_int(__FILE__, __LINE__);
  Dims sizes = sizes_of(base), strides = strides_of(base);
  const c10::SymInt step = strides[dim];
  sizes.erase(sizes.begin() + dim);
  strides.erase(strides.begin() + dim);
  std::vector<at::Tensor> parts;
  for (int64_t i = 0; i < count; ++i)
    parts.push_back(make_fake_view(base, sizes, strides, base.sym_storage_offset() + step * i));
  return call.give(parts);
}

// self, size, stride: what reshape calls when the memory has such a view.
bool reshape_alias(const ShapeCall& call) {
  const at::Tensor base = call.tensor(0);
  const Dims sizes = dims_in(call[1]);
  const bool empty =
      std::any_of(sizes.begin(), sizes.end(), [](const c10::SymInt& size) { return is(size, 0); });
  // What works out the strides of symbolic sizes has 0 outside of an empty dimension.
  const Dims strides =
      empty && !all_equal(sizes, base.sym_sizes()) ? contiguous_strides(sizes) : dims_in(call[2]);
  return give_view(call, base, sizes, strides, base.sym_storage_offset());
}

// self, dim
bool squeeze_dim(const ShapeCall& call) {
  const at::Tensor base = call.tensor(0);
  if (base.dim() == 0) return false;
  const int64_t dim = c10::maybe_wrap_dim(call[1].toInt(), base.dim());
  Dims sizes = sizes_of(base), strides = strides_of(base);
  if (equal(sizes[dim], 1)) {
    sizes.erase(sizes.begin() + dim);
    strides.erase(strides.begin() + dim);
  }
  return give_view(call, base, sizes, strides, base.sym_storage_offset());
}

bool expand(const ShapeCall& call) {
  const at::Tensor base = call.tensor(0);
  Dims sizes = dims_in(call[1]);
  const int64_t first = static_cast<int64_t>(sizes.size()) - base.dim();
  if (first < 0) return false;
  for (size_t i = 0; i < sizes.size(); ++i)  // -1: as it is, of a dimension that there is
    if (!sizes[i].is_heap_allocated() &&
        sizes[i].as_int_unchecked() < (i < static_cast<size_t>(first) ? 0 : -1))
      return false;
  Dims strides(sizes.size(), 0);
  for (size_t i = first; i < sizes.size(); ++i) {
    const c10::SymInt size = base.sym_size(i - first);
    if (is(sizes[i], -1)) sizes[i] = size;
    if (equal(size, sizes[i])) {
      strides[i] = base.sym_stride(i - first);
    } else {
      TORCH_CHECK(equal(size, 1), "The expanded size of the tensor (", sizes[i],
                  ") must match the existing size (", size, ")");
    }
  }
  // PyTorch gives new leading dims the stride of the next one times its size.
  for (int64_t i = first - 1; i >= 0; --i)
    strides[i] = is(sizes[i], 1) && i + 1 < static_cast<int64_t>(sizes.size())
                     ? sizes[i + 1] * strides[i + 1]
                     : c10::SymInt(is(sizes[i], 1) ? 1 : 0);
  return give_view(call, base, sizes, strides, base.sym_storage_offset());
}

bool unsqueeze(const ShapeCall& call) {
  const at::Tensor base = call.tensor(0);
  const int64_t dim = c10::maybe_wrap_dim(call[1].toInt(), base.dim() + 1);
  Dims sizes = sizes_of(base), strides = strides_of(base);
  const c10::SymInt stride = dim < base.dim() ? times(sizes[dim], strides[dim]) : c10::SymInt(1);
  sizes.insert(sizes.begin() + dim, 1);
  strides.insert(strides.begin() + dim, stride);
  return give_view(call, base, sizes, strides, base.sym_storage_offset());
}

// self, dim, index
bool select(const ShapeCall& call) {
  const at::Tensor base = call.tensor(0);
  if (base.dim() == 0) return false;
  const int64_t dim = c10::maybe_wrap_dim(call[1].toInt(), base.dim());
  c10::SymInt index = int_in(call[2]);
  const c10::SymInt size = base.sym_size(dim);
  if (less(index, 0)) index = index + size;
  TORCH_CHECK_INDEX(!less(index, 0) && less(index, size), "select(): index out of range");
  Dims sizes = sizes_of(base), strides = strides_of(base);
  const c10::SymInt offset = plus(base.sym_storage_offset(), times(index, strides[dim]));
  sizes.erase(sizes.begin() + dim);
  strides.erase(strides.begin() + dim);
  return give_view(call, base, sizes, strides, offset);
}

constexpr NamedShape kShapes[] = {
    {"t", t, false},
    {"transpose.int", transpose, false},
    {"permute", permute, true},
    {"detach", detach, false},
    {"alias", detach, false},
    {"view", view, true},
    {"_unsafe_view", view, true},
    {"expand", expand, true},
    {"unsqueeze", unsqueeze, false},
    {"select.int", select, true},
    {"slice.Tensor", slice, true},
    {"split.Tensor", split, true},
    {"split_with_sizes", split_with_sizes, true},
    {"squeeze.dim", squeeze_dim, true},
    {"unbind.int", unbind, true},
    {"_reshape_alias", reshape_alias, true},
};

}  // namespace

std::span<const NamedShape> view_shapes() { return kShapes; }

}  // namespace braze::trace
