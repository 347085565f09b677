// Views of symbolic tensors; PyTorch's C++ kernels serve concrete ones.
#include <c10/core/WrapDimMinimal.h>

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

// A view of a contiguous tensor; other layouts are specialised.
bool view(const ShapeCall& call) {
  const at::Tensor base = call.tensor(0);
  Dims sizes = dims_in(call[1]);
  c10::SymInt known = 1;
  int inferred = -1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (is(sizes[i], -1))
      inferred = static_cast<int>(i);
    else
      known = known * sizes[i];
  }
  if (!all_equal(base.sym_strides(), contiguous_strides(base.sym_sizes()))) return false;
  if (inferred >= 0) {
    if (equal(known, 0)) return false;
    sizes[inferred] = base.sym_numel() / known;
    known = known * sizes[inferred];
  }
  TORCH_CHECK(equal(base.sym_numel(), known), "shape is invalid for input of size ",
              base.sym_numel());
  return give_view(call, base, sizes, contiguous_strides(sizes), base.sym_storage_offset());
}

bool expand(const ShapeCall& call) {
  const at::Tensor base = call.tensor(0);
  Dims sizes = dims_in(call[1]);
  const int64_t first = static_cast<int64_t>(sizes.size()) - base.dim();
  if (first < 0) return false;
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
  const c10::SymInt stride = dim < base.dim() ? sizes[dim] * strides[dim] : c10::SymInt(1);
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
  const c10::SymInt offset = base.sym_storage_offset() + index * strides[dim];
  sizes.erase(sizes.begin() + dim);
  strides.erase(strides.begin() + dim);
  return give_view(call, base, sizes, strides, offset);
}

constexpr NamedShape kShapes[] = {
    {"t", t, true},
    {"transpose.int", transpose, true},
    {"permute", permute, true},
    {"detach", detach, true},
    {"alias", detach, true},
    {"view", view, true},
    {"_unsafe_view", view, true},
    {"expand", expand, true},
    {"unsqueeze", unsqueeze, true},
    {"select.int", select, true},
};

}  // namespace

std::span<const NamedShape> view_shapes() { return kShapes; }

}  // namespace braze::trace
