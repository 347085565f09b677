#include <ATen/ExpandUtils.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/Resize.h>
#include <c10/core/TensorImpl.h>

#include "trace/fake_tensor.h"
#include "trace/shapes/families.h"

namespace braze::trace {

bool equal(const c10::SymInt& a, const c10::SymInt& b) {
  return a.sym_eq(b).guard_bool(__FILE__, __LINE__);
}

bool less(const c10::SymInt& a, const c10::SymInt& b) {
  return a.sym_lt(b).guard_bool(__FILE__, __LINE__);
}

bool all_equal(DimsRef a, DimsRef b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!equal(a[i], b[i])) return false;
  return true;
}

Dims dims_in(const c10::IValue& value) {
  Dims dims;
  if (value.isNone()) return dims;
  if (value.isIntList()) {
    for (int64_t dim : value.toIntVector()) dims.push_back(dim);
  } else {
    for (const c10::SymInt& dim : value.toSymIntVector()) dims.push_back(dim);
  }
  return dims;
}

c10::SymInt int_in(const c10::IValue& value) {
  return value.isInt() ? c10::SymInt(value.toInt()) : value.toSymInt();
}

at::ScalarType dtype_in(const c10::IValue& value, at::ScalarType otherwise) {
  return value.isNone() ? otherwise : static_cast<at::ScalarType>(value.toInt());
}

Dims contiguous_strides(DimsRef sizes) {
  Dims strides(sizes.size(), 1);
  c10::SymInt stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    if (!is(sizes[i], 0)) stride = stride * sizes[i];
  }
  return strides;
}

at::Tensor fresh(DimsRef sizes, at::ScalarType dtype) {
  return make_fake(sizes, contiguous_strides(sizes), dtype);
}

at::Tensor fresh_like(const at::Tensor& tensor, at::ScalarType dtype) {
  if (tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) {
    if (all_equal(tensor.sym_strides(), contiguous_strides(tensor.sym_sizes())))
      return fresh(tensor.sym_sizes(), dtype);
    const bool dense = tensor.unsafeGetTensorImpl()->is_non_overlapping_and_dense();
    TORCH_CHECK(dense, "a symbolic tensor that is not dense");  // the caller then specialises
    return make_fake(tensor.sym_sizes(), tensor.sym_strides(), dtype);
  }
  if (tensor.is_non_overlapping_and_dense())
    return make_fake(tensor.sym_sizes(), tensor.sym_strides(), dtype);
  const std::vector<int64_t> strides = at::infer_dense_strides(tensor.sizes(), tensor.strides());
  return make_fake(tensor.sym_sizes(), c10::fromIntArrayRefSlow(strides), dtype);
}

std::optional<at::MemoryFormat> plain_format(const at::Tensor& tensor) {
  const at::MemoryFormat suggested = tensor.suggest_memory_format();
  const bool contiguous = tensor.is_contiguous();
  if (contiguous == (suggested == at::MemoryFormat::Contiguous) &&
      (contiguous || tensor.is_contiguous(suggested)))
    return suggested;
  return std::nullopt;
}

at::Tensor fresh_in_format(DimsRef sizes, at::MemoryFormat format, at::ScalarType dtype) {
  if (format == at::MemoryFormat::Contiguous) return fresh(sizes, dtype);
  const c10::IntArrayRef concrete = C10_AS_INTARRAYREF_SLOW(sizes);
  const std::vector<int64_t> strides = format == at::MemoryFormat::ChannelsLast
                                           ? c10::get_channels_last_strides_2d(concrete)
                                           : c10::get_channels_last_strides_3d(concrete);
  return make_fake(sizes, c10::fromIntArrayRefSlow(strides), dtype);
}

Dims broadcast(c10::ArrayRef<at::Tensor> operands) {
  size_t rank = 0;
  for (const at::Tensor& operand : operands)
    rank = std::max(rank, static_cast<size_t>(operand.dim()));
  Dims result(rank, 1);
  for (const at::Tensor& operand : operands) {
    const auto sizes = operand.sym_sizes();
    const size_t first = rank - sizes.size();
    for (size_t i = 0; i < sizes.size(); ++i) {
      c10::SymInt& dim = result[first + i];
      if (is(sizes[i], 1)) continue;
      if (is(dim, 1)) {
        dim = sizes[i];
        continue;
      }
      TORCH_CHECK(equal(dim, sizes[i]), "The size of tensor a (", dim,
                  ") must match the size of tensor b (", sizes[i], ") at non-singleton dimension ",
                  first + i);
    }
  }
  return result;
}

// Sizes are concrete: PyTorch's own iterator decides. With symbols: contiguous operands, or
// operands of one shape and one dense layout, are decided here; others are specialised by the
// caller.
at::Tensor fresh_elementwise(c10::ArrayRef<at::Tensor> operands, at::ScalarType dtype) {
  bool symbolic = false;
  for (const at::Tensor& operand : operands)
    symbolic |= operand.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
  if (!symbolic) {
    at::TensorIteratorConfig config;
    config.set_check_mem_overlap(false)
        .check_all_same_dtype(false)
        .check_all_same_device(false)
        .declare_static_dtype_and_device(dtype, c10::kMeta)
        .add_owned_output(at::Tensor());
    for (const at::Tensor& operand : operands) config.add_const_input(operand);
    const at::Tensor output = config.build().output();
    return make_fake(output.sym_sizes(), output.sym_strides(), dtype);
  }
  const Dims sizes = broadcast(operands);
  bool one_shape = true, contiguous = true, one_layout = true;
  for (const at::Tensor& operand : operands) {
    one_shape = one_shape && all_equal(operand.sym_sizes(), sizes);
    contiguous =
        contiguous && all_equal(operand.sym_strides(), contiguous_strides(operand.sym_sizes()));
    one_layout =
        one_layout && one_shape && all_equal(operand.sym_strides(), operands[0].sym_strides());
  }
  // A contiguous operand of lower rank or with broadcast dims leaves the order of dims as it is.
  if (contiguous) return fresh(sizes, dtype);
  TORCH_CHECK(one_layout, "symbolic operands of different layouts");
  return fresh_like(operands[0], dtype);
}

}  // namespace braze::trace
