// Joining and making tensors with symbolic sizes; PyTorch's C++ kernels serve concrete ones.
#include <ATen/native/TypeProperties.h>
#include <c10/core/WrapDimMinimal.h>

#include "trace/fake_tensor.h"
#include "trace/shapes/families.h"

namespace braze::trace {
namespace {

// The order of channels that all of them have; what is joined keeps it.
at::MemoryFormat common_format(const std::vector<at::Tensor>& tensors) {
  std::optional<at::MemoryFormat> format;
  for (const at::Tensor& tensor : tensors) {
    const at::MemoryFormat own = tensor.suggest_memory_format();
    if (own == at::MemoryFormat::Contiguous || (format && *format != own))
      return at::MemoryFormat::Contiguous;
    format = own;
  }
  return *format;
}

// tensors, dim
bool cat(const ShapeCall& call) {
  std::vector<at::Tensor> tensors;
  const std::vector<at::Tensor> all = call[0].toTensorVector();
  for (const at::Tensor& tensor : all)  // an empty tensor of one dimension joins with anything
    if (tensor.dim() != 1 || !is(tensor.sym_size(0), 0)) tensors.push_back(tensor);
  if (tensors.empty()) return false;
  const int64_t rank = tensors[0].dim();
  if (rank == 0) return false;  // an error
  const int64_t dim = c10::maybe_wrap_dim(call[1].toInt(), rank);
  Dims sizes = sizes_of(tensors[0]);
  for (size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i].dim() != rank) return false;
    for (int64_t d = 0; d < rank; ++d) {
      if (d == dim)
        sizes[d] = plus(sizes[d], tensors[i].sym_size(d));
      else if (!equal(sizes[d], tensors[i].sym_size(d)))
        return false;
    }
  }
  return call.give(
      fresh_in_format(sizes, common_format(all), at::native::result_type(at::TensorList(all))));
}

// tensors, dim
bool stack(const ShapeCall& call) {
  const std::vector<at::Tensor> tensors = call[0].toTensorVector();
  if (tensors.empty()) return false;
  const int64_t dim = c10::maybe_wrap_dim(call[1].toInt(), tensors[0].dim() + 1);
  for (const at::Tensor& tensor : tensors)
    if (!all_equal(tensor.sym_sizes(), tensors[0].sym_sizes())) return false;
  Dims sizes = sizes_of(tensors[0]);
  sizes.insert(sizes.begin() + dim, static_cast<int64_t>(tensors.size()));
  if (sizes.size() == 4 || sizes.size() == 5) {
    // Joined as tensors with the new dimension, which then may have the order of channels.
    for (const at::Tensor& tensor : tensors)
      if (!is_row_major(tensor)) return false;
    if (dim == 1 && is(sizes[1], 1)) return false;
  }
  return call.give(fresh(sizes, at::native::result_type(at::TensorList(tensors))));
}

// self, repeats
bool repeat(const ShapeCall& call) {
  const at::Tensor base = call.tensor(0);
  Dims sizes = dims_in(call[1]);
  if (static_cast<int64_t>(sizes.size()) < base.dim()) return false;
  const size_t first = sizes.size() - base.dim();
  for (int64_t i = 0; i < base.dim(); ++i)
    sizes[first + i] = times(sizes[first + i], base.sym_size(i));
  return call.give(fresh(sizes, base.scalar_type()));
}

// self, pad, value
bool constant_pad(const ShapeCall& call) {
  const at::Tensor base = call.tensor(0);
  const Dims pad = dims_in(call[1]);
  if (!is_row_major(base)) return false;
  if (pad.size() % 2 != 0 || pad.size() > 2 * static_cast<size_t>(base.dim())) return false;
  Dims sizes = sizes_of(base);
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    c10::SymInt& size = sizes[sizes.size() - 1 - i];
    size = size + pad[2 * i] + pad[2 * i + 1];
    if (less(size, 1)) return false;
  }
  return call.give(fresh(sizes, base.scalar_type()));
}

bool are_sizes(const Dims& sizes) {
  for (const c10::SymInt& size : sizes)
    if (!expect_at_least(size, 0)) return false;
  return true;
}

// A fresh tensor; a negative size is an error, which is left to PyTorch.
bool give_fresh(const ShapeCall& call, const Dims& sizes, at::ScalarType dtype) {
  return are_sizes(sizes) && call.give(fresh(sizes, dtype));
}

// Whole numbers only: others are rounded.
bool arange_of(const ShapeCall& call, int start, int end, int step, int dtype) {
  for (int i : {start, end, step})
    if (i >= 0 && !call[i].isInt() && !call[i].isSymInt()) return false;
  const c10::SymInt from = start < 0 ? c10::SymInt(0) : int_in(call[start]);
  const c10::SymInt by = step < 0 ? c10::SymInt(1) : int_in(call[step]);
  const c10::SymInt length = int_in(call[end]) - from;
  if (!less(0, by) || !expect_at_least(length, 0)) return false;
  return call.give(
      fresh(Dims{is(by, 1) ? length : (length + by - 1) / by}, dtype_in(call[dtype], at::kLong)));
}

bool arange(const ShapeCall& call) { return arange_of(call, -1, 0, -1, 1); }
bool arange_start(const ShapeCall& call) { return arange_of(call, 0, 1, -1, 2); }
bool arange_start_step(const ShapeCall& call) { return arange_of(call, 0, 1, 2, 3); }

at::ScalarType default_dtype() { return c10::typeMetaToScalarType(c10::get_default_dtype()); }

// size, dtype
bool zeros(const ShapeCall& call) {
  return give_fresh(call, dims_in(call[0]), dtype_in(call[1], default_dtype()));
}

// size, value, dtype
bool full(const ShapeCall& call) {
  at::ScalarType dtype = default_dtype();
  if (call[1].isInt() || call[1].isSymInt()) dtype = at::kLong;
  if (call[1].isBool()) dtype = at::kBool;
  if (call[1].isComplexDouble()) return false;
  return give_fresh(call, dims_in(call[0]), dtype_in(call[2], dtype));
}

// self, size, dtype
bool new_zeros(const ShapeCall& call) {
  return give_fresh(call, dims_in(call[1]), dtype_in(call[2], call.tensor(0).scalar_type()));
}

// self, size, value, dtype
bool new_full(const ShapeCall& call) {
  return give_fresh(call, dims_in(call[1]), dtype_in(call[3], call.tensor(0).scalar_type()));
}

// size, dtype, layout, device, pin_memory, memory_format
bool empty(const ShapeCall& call) {
  if (!call[5].isNone()) return false;
  return zeros(call);
}

// high, size, dtype
bool random_below(const ShapeCall& call) {
  return give_fresh(call, dims_in(call[1]), dtype_in(call[2], at::kLong));
}

// low, high, size, dtype
bool random_between(const ShapeCall& call) {
  return give_fresh(call, dims_in(call[2]), dtype_in(call[3], at::kLong));
}

// n, dtype
bool eye(const ShapeCall& call) {
  return give_fresh(call, Dims{int_in(call[0]), int_in(call[0])},
                    dtype_in(call[1], default_dtype()));
}

// n, m, dtype
bool eye_of_two(const ShapeCall& call) {
  return give_fresh(call, Dims{int_in(call[0]), int_in(call[1])},
                    dtype_in(call[2], default_dtype()));
}

// self, diagonal
bool triangle(const ShapeCall& call) {
  const at::Tensor base = call.tensor(0);
  return call.give(fresh(base.sym_sizes(), base.scalar_type()));
}

constexpr NamedShape kShapes[] = {
    {"cat", cat, true},
    {"stack", stack, true},
    {"repeat", repeat, true},
    {"constant_pad_nd", constant_pad, true},
    {"arange", arange, true},
    {"arange.start", arange_start, true},
    {"arange.start_step", arange_start_step, true},
    {"zeros", zeros, true},
    {"ones", zeros, true},
    {"empty.memory_format", empty, true},
    {"full", full, true},
    {"new_zeros", new_zeros, true},
    {"new_ones", new_zeros, true},
    {"new_empty", new_zeros, true},
    {"new_full", new_full, true},
    {"rand", zeros, true},
    {"randn", zeros, true},
    {"randint", random_below, true},
    {"randint.low", random_between, true},
    {"eye", eye, true},
    {"eye.m", eye_of_two, true},
    {"triu", triangle, true},
    {"tril", triangle, true},
};

}  // namespace

std::span<const NamedShape> assembly_shapes() { return kShapes; }

}  // namespace braze::trace
