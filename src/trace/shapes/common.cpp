#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "pytorch/aten.h"
#include "sym/expr.h"
#include "trace/fake_tensor.h"
#include "trace/record.h"
#include "trace/shapes/families.h"

namespace braze::trace {

bool expect_equal(const c10::SymInt& a, const c10::SymInt& b) {
  if (from_symint(a) == from_symint(b)) return true;
  return a.sym_eq(b).expect_true(__FILE__, __LINE__);
}

bool expect_at_least(const c10::SymInt& a, int64_t least) {
  return a.sym_ge(least).expect_true(__FILE__, __LINE__);
}

bool expect_extent(const c10::SymInt& size, int64_t least) {
  return size.is_heap_allocated() ? expect_at_least(size, least) : size.as_int_unchecked() >= least;
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

namespace {

// What a dimension adds to the strides outside of it: its size, 1 if it is empty.
c10::SymInt spanned(const c10::SymInt& size) {
  if (is(size, 0)) return 1;
  // A size that comes from data may be 0.
  const bool known = !size.is_heap_allocated() || size.toSymNodeImplUnowned()->has_hint();
  return known ? size : size.max(1);
}

}  // namespace

Dims contiguous_strides(DimsRef sizes) {
  Dims strides(sizes.size(), 1);
  c10::SymInt stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride = times(stride, spanned(sizes[i]));
  }
  return strides;
}

namespace {

// Of a layout that decides nothing but how a result lies: where a size is not known, no.
bool surely_equal(const c10::SymInt& a, const c10::SymInt& b) {
  try {
    return equal(a, b);
  } catch (const sym::Undecidable&) {
    return false;  // not surely
  }
}

void collect_symbols(sym::Int value, std::map<int, const sym::Expr*>& symbols) {
  if (value.is_constant()) return;
  const sym::Expr* e = value.expr();
  if (e->kind == sym::ExprKind::kSymbol) {
    symbols[e->symbol] = e;
    return;
  }
  collect_symbols(e->a, symbols);
  collect_symbols(e->b, symbols);
  for (const auto& [term, coefficient] : e->terms) collect_symbols(sym::Int(term), symbols);
}

// Whether one stride is less than another, as it is for all sizes of 2 and more: a dimension of
// size 0 or 1 may stand anywhere. Strides are products of sizes, so that the extremes tell; where
// they differ the question stays open.
bool less_for_most_sizes(const c10::SymInt& a, const c10::SymInt& b) {
  try {
    return less(a, b);
  } catch (const sym::Undecidable&) {
    const sym::Int x = from_symint(a), y = from_symint(b);
    const sym::ShapeEnv& shapes = current_record()->shapes;
    std::map<int, const sym::Expr*> symbols;
    collect_symbols(x, symbols);
    collect_symbols(y, symbols);
    constexpr size_t kMost = 4;
    if (symbols.size() > kMost) throw;
    std::optional<bool> answer;
    for (unsigned corner = 0; corner < 1u << symbols.size(); ++corner) {
      std::vector<sym::Int> values(shapes.symbol_count());
      unsigned bit = 0;
      for (const auto& [number, symbol] : symbols) {
        const int64_t extreme = corner >> bit++ & 1 ? int64_t{1} << 15 : 2;
        values[number] = shapes.is_unbacked(number) ? sym::Int(extreme) : sym::Int(symbol);
      }
      const sym::Int left = sym::replace(x, values), right = sym::replace(y, values);
      if (!left.is_constant() || !right.is_constant()) throw;
      const bool is_less = left.constant() < right.constant();
      if (answer && *answer != is_less) throw;
      answer = is_less;
    }
    return *answer;
  }
}

// How TensorIterator compares two dimensions of its operands: < 0, > 0, or 0 where they leave it
// open. A stride of 0 says nothing.
int compare_dims(int64_t a, int64_t b, DimsRef sizes, c10::ArrayRef<Dims> operand_strides) {
  for (const Dims& strides : operand_strides) {
    if (is(strides[a], 0) || is(strides[b], 0)) continue;
    if (less_for_most_sizes(strides[a], strides[b])) return -1;
    if (less_for_most_sizes(strides[b], strides[a])) return 1;
    if (less_for_most_sizes(sizes[b], sizes[a])) return 1;
  }
  return 0;
}

// The dimensions from the innermost out, as TensorIterator::reorder_dimensions sorts them (and
// at::infer_dense_strides for one tensor).
std::vector<int64_t> iteration_order(DimsRef sizes, c10::ArrayRef<Dims> operand_strides) {
  const auto rank = static_cast<int64_t>(sizes.size());
  std::vector<int64_t> order(rank);
  for (int64_t i = 0; i < rank; ++i) order[i] = rank - 1 - i;
  for (int64_t i = 1; i < rank; ++i) {
    int64_t place = i;
    for (int64_t j = i - 1; j >= 0; --j) {
      const int comparison = compare_dims(order[j], order[place], sizes, operand_strides);
      if (comparison < 0) break;
      if (comparison == 0) continue;
      std::swap(order[j], order[place]);
      place = j;
    }
  }
  return order;
}

Dims dense_strides(DimsRef sizes, const std::vector<int64_t>& order) {
  Dims strides(sizes.size(), 1);
  c10::SymInt stride = 1;
  for (int64_t dim : order) {
    strides[dim] = stride;
    stride = times(stride, spanned(sizes[dim]));
  }
  return strides;
}

bool is_row_major_order(const std::vector<int64_t>& order) {
  return std::is_sorted(order.begin(), order.end(), std::greater<>());
}

bool is_empty(DimsRef sizes) {
  return std::any_of(sizes.begin(), sizes.end(),
                     [](const c10::SymInt& size) { return is(size, 0); });
}

bool is_dense(const at::Tensor& tensor, const std::vector<int64_t>& order) {
  c10::SymInt expected = 1;
  for (int64_t dim : order) {
    if (is(tensor.sym_size(dim), 1)) continue;
    if (!surely_equal(tensor.sym_stride(dim), expected)) {
      if (surely_equal(tensor.sym_size(dim), 1)) continue;
      return false;
    }
    expected = times(expected, tensor.sym_size(dim));
  }
  return true;
}

// Strides of an operand in a broadcast result: 0 where it is repeated.
Dims broadcast_strides(const at::Tensor& operand, DimsRef sizes) {
  Dims strides(sizes.size(), 0);
  const size_t first = sizes.size() - operand.dim();
  for (int64_t i = 0; i < operand.dim(); ++i)
    if (!is(operand.sym_size(i), 1) || is(sizes[first + i], 1))
      strides[first + i] = operand.sym_stride(i);
  return strides;
}

}  // namespace

Dims strides_for_operands(DimsRef sizes, c10::ArrayRef<Dims> operand_strides) {
  const std::vector<int64_t> order = iteration_order(sizes, operand_strides);
  if (is_row_major_order(order)) return contiguous_strides(sizes);
  // Unlike any other result, one that TensorIterator lays out has strides of 0 outside of an empty
  // dimension.
  Dims strides(sizes.size(), 1);
  c10::SymInt stride = 1;
  for (int64_t dim : order) {
    strides[dim] = stride;
    stride = times(stride, sizes[dim]);
  }
  return strides;
}

bool is_row_major(const at::Tensor& tensor) {
  const FakeTensorImpl* fake = as_fake(tensor);
  if (fake && fake->is_known_row_major()) return true;
  const Dims row_major = contiguous_strides(tensor.sym_sizes());
  for (int64_t i = 0; i < tensor.dim(); ++i)
    if (!surely_equal(tensor.sym_stride(i), row_major[i])) return false;
  return true;
}

at::Tensor fresh(DimsRef sizes, at::ScalarType dtype) {
  return make_row_major_fake(sizes, contiguous_strides(sizes), dtype);
}

namespace {

// Channels innermost, then the spatial dimensions, the batch outermost.
Dims channels_last_strides(DimsRef sizes) {
  Dims strides(sizes.size(), 1);
  c10::SymInt stride = sizes[1];
  for (size_t i = sizes.size(); i-- > 2;) {
    strides[i] = stride;
    stride = times(stride, sizes[i]);
  }
  strides[0] = stride;
  return strides;
}

// The same expressions: no question, no guard.
bool are_same(DimsRef a, DimsRef b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (from_symint(a[i]) != from_symint(b[i])) return false;
  return true;
}

// Symbols that come from data may be 0.
bool may_be_empty(DimsRef sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [](const c10::SymInt& size) {
    return size.is_heap_allocated() ? !size.toSymNodeImplUnowned()->has_hint() : is(size, 0);
  });
}

// What is plain to see of symbolic sizes: with more than one channel no row-major tensor looks as
// if its channels were last, and no tensor of more than one pixel whose channels are last looks
// row-major.
std::optional<at::MemoryFormat> obvious_format(const at::Tensor& tensor) {
  if (!tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return std::nullopt;
  const auto sizes = tensor.sym_sizes(), strides = tensor.sym_strides();
  if (may_be_empty(sizes)) return std::nullopt;
  const bool has_channels = sizes.size() == 4 || sizes.size() == 5;
  if (has_channels && (sizes[1].is_heap_allocated() || sizes[1].as_int_unchecked() < 2))
    return std::nullopt;
  if (are_same(strides, contiguous_strides(sizes))) return at::MemoryFormat::Contiguous;
  if (!has_channels || !are_same(strides, channels_last_strides(sizes))) return std::nullopt;
  if (!less(1, sizes.back()) && !less(1, sizes[sizes.size() - 2])) return std::nullopt;
  return sizes.size() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d;
}

}  // namespace

at::Tensor fresh_like(const at::Tensor& tensor, at::ScalarType dtype) {
  if (tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) {
    if (obvious_format(tensor).value_or(at::MemoryFormat::Contiguous) !=
        at::MemoryFormat::Contiguous)
      return make_fake(tensor.sym_sizes(), tensor.sym_strides(), dtype);
    if (is_row_major(tensor)) return fresh(tensor.sym_sizes(), dtype);
    // What has no elements counts as dense.
    if (is_empty(tensor.sym_sizes()))
      return make_fake(tensor.sym_sizes(), tensor.sym_strides(), dtype);
    const std::vector<int64_t> order = iteration_order(tensor.sym_sizes(), {strides_of(tensor)});
    if (is_dense(tensor, order)) return make_fake(tensor.sym_sizes(), tensor.sym_strides(), dtype);
    return make_fake(tensor.sym_sizes(), dense_strides(tensor.sym_sizes(), order), dtype);
  }
  if (tensor.is_non_overlapping_and_dense())
    return make_fake(tensor.sym_sizes(), tensor.sym_strides(), dtype);
  const std::vector<int64_t> strides =
      pytorch::dense_strides_like(tensor.sizes(), tensor.strides());
  return make_fake(tensor.sym_sizes(), c10::fromIntArrayRefSlow(strides), dtype);
}

std::optional<at::MemoryFormat> plain_format(const at::Tensor& tensor) {
  if (auto format = obvious_format(tensor)) return format;
  const at::MemoryFormat suggested = tensor.suggest_memory_format();
  const bool contiguous = tensor.is_contiguous();
  if (contiguous == (suggested == at::MemoryFormat::Contiguous) &&
      (contiguous || tensor.is_contiguous(suggested)))
    return suggested;
  return std::nullopt;
}

at::Tensor fresh_in_format(DimsRef sizes, at::MemoryFormat format, at::ScalarType dtype) {
  if (format == at::MemoryFormat::Contiguous) return fresh(sizes, dtype);
  return make_fake(sizes, channels_last_strides(sizes), dtype);
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
      TORCH_CHECK(expect_equal(dim, sizes[i]), "The size of tensor a (", dim,
                  ") must match the size of tensor b (", sizes[i], ") at non-singleton dimension ",
                  first + i);
    }
  }
  return result;
}

bool is_index(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kLong || tensor.scalar_type() == at::kInt;
}

Indices following_indices(const ShapeCall& call) {
  const auto given = call[1].toList();
  if (given.size() > static_cast<size_t>(call.tensor(0).dim())) return {};
  Indices result;
  for (size_t i = 0; i < given.size(); ++i) {
    const c10::IValue element = given.get(i);
    if (!element.isTensor() || !element.toTensor().defined()) continue;
    if (result.tensors.empty()) result.first = i;
    if (!is_index(element.toTensor()) || result.first + result.tensors.size() != i) return {};
    result.tensors.push_back(element.toTensor());
  }
  return result;
}

namespace {

// Tensor::is_contiguous: dimensions of size 1 may have any stride, and what is empty is contiguous.
bool is_contiguous(const at::Tensor& tensor) {
  if (auto format = obvious_format(tensor)) return *format == at::MemoryFormat::Contiguous;
  if (is_empty(tensor.sym_sizes())) return true;
  std::vector<int64_t> order(tensor.dim());
  std::iota(order.rbegin(), order.rend(), 0);
  return is_dense(tensor, order);
}

bool is_channels_last(const at::Tensor& tensor) {
  if (auto format = obvious_format(tensor)) return *format == at::MemoryFormat::ChannelsLast;
  return tensor.dim() == 4 && is_dense(tensor, {1, 3, 2, 0});
}

// The strides of a result that TensorIterator sets up without a look at single dimensions: operands
// of one shape that are contiguous, channels-last, or dense with the same strides.
std::optional<Dims> common_strides(DimsRef sizes, c10::ArrayRef<at::Tensor> operands) {
  const auto all = [&](auto&& holds) {
    return std::all_of(operands.begin(), operands.end(), holds);
  };
  if (!all([&](const at::Tensor& operand) { return all_equal(operand.sym_sizes(), sizes); }))
    return std::nullopt;
  if (all(is_contiguous)) return contiguous_strides(sizes);
  if (all(is_channels_last)) return channels_last_strides(sizes);
  const at::Tensor& last = operands.back();
  const bool same = all([&](const at::Tensor& operand) {
    return all_equal(operand.sym_strides(), last.sym_strides());
  });
  if (!same || !is_dense(last, iteration_order(sizes, {strides_of(last)}))) return std::nullopt;
  return strides_of(last);
}

}  // namespace

// Sizes are concrete: PyTorch's own iterator decides. With symbols: what it does is done here.
at::Tensor fresh_elementwise(c10::ArrayRef<at::Tensor> operands, at::ScalarType dtype,
                             bool with_number) {
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
    const at::Tensor number =
        with_number ? at::empty({}, at::TensorOptions(c10::kMeta)) : at::Tensor();
    if (with_number) config.add_const_input(number);
    const at::Tensor output = config.build().output();
    return make_fake(output.sym_sizes(), output.sym_strides(), dtype);
  }
  const Dims sizes = broadcast(operands);
  // A row-major operand of lower rank or with broadcast dims leaves the order of dims as it is, but
  // for dimensions of size 0, which go inside of those of size 1.
  if (!is_empty(sizes) && std::all_of(operands.begin(), operands.end(), is_row_major))
    return fresh(sizes, dtype);
  if (!with_number)
    if (const std::optional<Dims> strides = common_strides(sizes, operands))
      return make_fake(sizes, *strides, dtype);
  std::vector<Dims> strides;
  for (const at::Tensor& operand : operands) strides.push_back(broadcast_strides(operand, sizes));
  return make_fake(sizes, strides_for_operands(sizes, strides), dtype);
}

}  // namespace braze::trace
