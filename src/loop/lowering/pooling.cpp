// Pooling on GPUs: an element of a result is an expression of the points of its window, and one of
// a gradient of the windows that hold it, so that nothing is added up in memory. On CPUs, whose
// vectors want rows, these are PyTorch's operators.
#include <algorithm>
#include <bit>

#include "graph/op_kind.h"
#include "loop/lowering/lowering.h"

namespace braze::loop::lowering {
namespace {

using graph::OpKind;
using K = ExprKind;

// Each point of a window, or window over a point, is an operand of an expression.
constexpr int64_t kMostPoints = 25;

// The windows along one dimension.
struct Windows {
  int64_t size;  // of the image
  int64_t count;
  int64_t kernel, stride, padding;

  // Windows of which all points are ones of the image.
  bool are_whole() const { return padding == 0 && (count - 1) * stride + kernel <= size; }
  int64_t most_over_a_point() const { return (kernel + stride - 1) / stride; }
};
struct Pooling {
  Windows rows, columns;
};

// Arguments from `first` on: kernel_size, stride, padding, where one number is for both dimensions
// and an absent stride is the kernel's size.
Pooling pooling_of(const Node& node, int first, const Value* image, const Value* pooled) {
  const auto along = [&](int64_t dim) {
    const auto number = [&](int argument, int64_t otherwise) {
      if (graph::is_none(node, argument)) return otherwise;
      const std::vector<int64_t> given = graph::ints_arg(node, argument);
      return given.empty() ? otherwise : given[given.size() == 1 ? 0 : dim];
    };
    const int64_t kernel = number(first, 0);
    return Windows{sizes_of(image).rbegin()[1 - dim].constant(),
                   sizes_of(pooled).rbegin()[1 - dim].constant(), kernel, number(first + 1, kernel),
                   number(first + 2, 0)};
  };
  return {along(0), along(1)};
}

bool are_images(const Lowering& lowering, const Value* value) {
  const graph::TensorType& type = value->type();
  return lowering.on_gpu() && graph::is_float(type.dtype) &&
         (type.rank() == 3 || type.rank() == 4) && never_empty(type.sizes);
}

// A place along a dimension, and whether there is something, where that has to be asked.
struct Place {
  ExprRef at, exists;
};

ExprRef within(ExprPool& pool, ExprRef at, int64_t end) {
  return pool.binary(K::kAnd, pool.binary(K::kLe, pool.integer(0), at),
                     pool.binary(K::kLt, at, pool.integer(end)));
}

// The points of window `window`, in order.
std::vector<Place> points_of(ExprPool& pool, const Windows& windows, ExprRef window) {
  std::vector<Place> points;
  ExprRef first = pool.mul(window, windows.stride);
  for (int64_t i = 0; i < windows.kernel; ++i) {
    ExprRef at = pool.add(first, pool.integer(i - windows.padding));
    points.push_back({at, within(pool, at, windows.size)});
  }
  return points;
}

// The windows that hold point `at`, in order. `exact`: none besides, as where an index tells.
std::vector<Place> windows_over(ExprPool& pool, const Windows& windows, ExprRef at, bool exact) {
  std::vector<Place> found;
  ExprRef place = pool.add(at, pool.integer(windows.padding));
  ExprRef last = pool.binary(K::kFloorDiv, place, pool.integer(windows.stride));
  for (int64_t i = windows.most_over_a_point(); i-- > 0;) {
    ExprRef window = pool.add(last, pool.integer(-i));
    ExprRef exists = within(pool, window, windows.count);
    if (exact && (i + 1) * windows.stride > windows.kernel) {
      ExprRef offset = pool.binary(K::kMod, place, pool.integer(windows.stride));
      ExprRef reaches =
          pool.binary(K::kLt, offset, pool.integer(windows.kernel - i * windows.stride));
      exists = pool.binary(K::kAnd, exists, reaches);
    }
    found.push_back({window, exists});
  }
  return found;
}

// The sum over rows and columns of what `term` gives for the index of each.
ExprRef sum_over(ExprPool& pool, IndexView index, std::span<const Place> rows,
                 std::span<const Place> columns, DType dtype,
                 const std::function<ExprRef(IndexView)>& term) {
  ExprRef sum = nullptr;
  Index own(index.begin(), index.end());
  for (const Place& row : rows)
    for (const Place& column : columns) {
      own.rbegin()[1] = row.at;
      own.back() = column.at;
      ExprRef exists = pool.binary(K::kAnd, row.exists, column.exists);
      ExprRef value = pool.masked(exists, term(own), pool.number(dtype, 0));
      sum = sum ? pool.binary(K::kAdd, sum, value) : value;
    }
  return sum;
}

ExprRef divided(ExprPool& pool, ExprRef value, ExprRef by) {
  const auto exact = [](double number) {
    return number > 0 && std::has_single_bit(static_cast<uint64_t>(number)) &&
           number == static_cast<double>(static_cast<uint64_t>(number));
  };
  if (by->is_constant() && exact(by->fval))
    return pool.binary(K::kMul, value, pool.constant(value->dtype, 1 / by->fval));
  return pool.binary(K::kDiv, value, by);
}

// What a mean over windows divides by.
struct Divisor {
  bool counts_padding = true;
  std::optional<int64_t> given;

  // Points of window `window` that count.
  ExprRef points(ExprPool& pool, const Windows& windows, ExprRef window) const {
    const auto [size, count, kernel, stride, padding] = windows;
    const int64_t border = counts_padding ? padding : 0;
    const bool whole = (count - 1) * stride + kernel - padding <= size + border;
    if (whole && padding == border) return pool.integer(kernel);
    ExprRef first = pool.add(pool.mul(window, stride), pool.integer(-padding));
    ExprRef end =
        pool.binary(K::kMin, pool.add(first, pool.integer(kernel)), pool.integer(size + border));
    if (!counts_padding) first = pool.binary(K::kMax, first, pool.integer(0));
    return pool.binary(K::kSub, end, first);
  }
  ExprRef of(ExprPool& pool, const Pooling& pooling, ExprRef row, ExprRef column,
             DType dtype) const {
    if (given) return pool.number(dtype, static_cast<double>(*given));
    ExprRef rows = points(pool, pooling.rows, row);
    return pool.cast(pool.mul(rows, points(pool, pooling.columns, column)), dtype);
  }
};

// ceil_mode is in the count of the windows.
Divisor divisor_of(const Node& node, int counts_padding) {
  return {graph::bool_arg_or(node, counts_padding, true),
          graph::optional_int_arg(node, counts_padding + 1)};
}

// Means over large windows are reductions.
bool reduce_windows(Lowering& lowering, const Node& node, const Pooling& pooling,
                    const Divisor& divisor) {
  const auto& [rows, columns] = pooling;
  if (!rows.are_whole() || !columns.are_whole()) return false;
  Value* image = graph::tensor_arg(node, 0);
  Value* result = node.result();
  const sym::Dims inner = {rows.kernel, columns.kernel};
  ExprPool& pool = lowering.pool();
  const DType compute = compute_dtype(image->type().dtype);
  KernelBuilder kernel(lowering, node.origin(), "fused_" + short_name(node.op()), sizes_of(result),
                       inner);
  Index own(kernel.outer().begin(), kernel.outer().end());
  ExprRef& row = own.rbegin()[1];
  ExprRef& column = own.back();
  ExprRef by = divisor.of(pool, pooling, row, column, compute);
  row = pool.add(pool.mul(row, rows.stride), kernel.inner()[0]);
  column = pool.add(pool.mul(column, columns.stride), kernel.inner()[1]);
  ExprRef sum = kernel.reduce(ReduceOp::kSum, lowering.element(image, own));
  kernel.store(result, kernel.outer(), divided(pool, sum, by));
  kernel.finish();
  return true;
}

bool define_means(Lowering& lowering, const Node& node, const Pooling& pooling,
                  const Divisor& divisor) {
  Value* image = graph::tensor_arg(node, 0);
  const int64_t points = pooling.rows.kernel * pooling.columns.kernel;
  if (divisor.given == 0) return false;
  lowering.realise_checked(image);  // some windows leave points out
  if (points > kMostPoints) return reduce_windows(lowering, node, pooling, divisor);
  lowering.realise_heavy(image);
  Value* operands[] = {image};
  lowering.define(node, 0, lowering.traits_over(node, operands, static_cast<int>(points) * 4),
                  [&lowering, image, pooling, divisor](IndexView index) {
                    ExprPool& pool = lowering.pool();
                    const DType dtype = image->type().dtype, compute = compute_dtype(dtype);
                    ExprRef row = index.rbegin()[1], column = index.back();
                    ExprRef sum = sum_over(
                        pool, index, points_of(pool, pooling.rows, row),
                        points_of(pool, pooling.columns, column), compute, [&](IndexView own) {
                          return pool.cast(lowering.element_within(image, own, sizes_of(image)),
                                           compute);
                        });
                    ExprRef by = divisor.of(pool, pooling, row, column, compute);
                    return pool.cast(divided(pool, sum, by), dtype);
                  });
  return true;
}

// self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
bool lower_avg_pool(Lowering& lowering, const Node& node) {
  Value* image = graph::tensor_arg(node, 0);
  if (!are_images(lowering, image)) return false;
  return define_means(lowering, node, pooling_of(node, 1, image, node.result()),
                      divisor_of(node, 5));
}

// Windows that are all as large; nothing where some are not.
std::optional<Windows> equal_windows(sym::Int size, sym::Int count) {
  const int64_t all = size.constant(), windows = count.constant();
  if (windows == 0 || all % windows != 0) return std::nullopt;
  return Windows{all, windows, all / windows, all / windows, 0};
}

std::optional<Pooling> equal_windows(const Value* image, const Value* pooled) {
  const sym::Dims from = sizes_of(image), to = sizes_of(pooled);
  const auto rows = equal_windows(from.rbegin()[1], to.rbegin()[1]);
  const auto columns = equal_windows(from.back(), to.back());
  if (!rows || !columns) return std::nullopt;
  return Pooling{*rows, *columns};
}

bool lower_adaptive_avg_pool(Lowering& lowering, const Node& node) {
  Value* image = graph::tensor_arg(node, 0);
  if (!are_images(lowering, image)) return false;
  const auto pooling = equal_windows(image, node.result());
  return pooling && define_means(lowering, node, *pooling, {});
}

// A gradient as a sum over the windows that hold a point; `term` is of the index of a window.
bool define_gradient(Lowering& lowering, const Node& node, const Pooling& pooling, bool exact,
                     std::span<Value* const> operands,
                     std::function<ExprRef(IndexView index, IndexView window)> term) {
  const int64_t windows = pooling.rows.most_over_a_point() * pooling.columns.most_over_a_point();
  if (windows > kMostPoints) return false;
  for (Value* operand : operands) {
    lowering.realise_checked(operand);
    lowering.realise_heavy(operand);
  }
  const DType dtype = node.result()->type().dtype;
  lowering.define(node, 0, lowering.traits_over(node, operands, static_cast<int>(windows) * 8),
                  [&lowering, pooling, exact, dtype, term = std::move(term)](IndexView index) {
                    ExprPool& pool = lowering.pool();
                    const auto rows = windows_over(pool, pooling.rows, index.rbegin()[1], exact);
                    const auto columns = windows_over(pool, pooling.columns, index.back(), exact);
                    ExprRef sum = sum_over(pool, index, rows, columns, compute_dtype(dtype),
                                           [&](IndexView window) { return term(index, window); });
                    return pool.cast(sum, dtype);
                  });
  return true;
}

// grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices
bool lower_max_pool_backward(Lowering& lowering, const Node& node) {
  Value* grad = graph::tensor_arg(node, 0);
  Value* image = graph::tensor_arg(node, 1);
  Value* indices = graph::tensor_arg(node, 7);
  if (!are_images(lowering, image) || grad->type().dtype != image->type().dtype) return false;
  for (int64_t dilation : graph::ints_arg(node, 5))
    if (dilation != 1) return false;
  Pooling pooling = pooling_of(node, 2, image, grad);
  lowering.realise_math(indices);
  Value* operands[] = {grad, indices};
  const sym::Int width = sizes_of(image).back();
  return define_gradient(
      lowering, node, pooling, /*exact=*/false, operands,
      [&lowering, grad, indices, width](IndexView index, IndexView window) {
        ExprPool& pool = lowering.pool();
        const DType compute = compute_dtype(grad->type().dtype);
        ExprRef place = pool.add(pool.mul(index.rbegin()[1], width), index.back());
        ExprRef found = lowering.element_within(indices, window, sizes_of(indices));
        ExprRef value = lowering.element_within(grad, window, sizes_of(grad));
        return pool.where(pool.binary(K::kEq, found, place), pool.cast(value, compute),
                          pool.number(compute, 0));
      });
}

// Gradients of means.
bool define_shares(Lowering& lowering, const Node& node, const Pooling& pooling,
                   const Divisor& divisor) {
  Value* grad = graph::tensor_arg(node, 0);
  if (divisor.given == 0) return false;
  Value* operands[] = {grad};
  return define_gradient(
      lowering, node, pooling, /*exact=*/true, operands,
      [&lowering, grad, pooling, divisor](IndexView, IndexView window) {
        ExprPool& pool = lowering.pool();
        const DType compute = compute_dtype(grad->type().dtype);
        ExprRef value = lowering.element_within(grad, window, sizes_of(grad));
        return divided(pool, pool.cast(value, compute),
                       divisor.of(pool, pooling, window.rbegin()[1], window.back(), compute));
      });
}

// grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
bool lower_avg_pool_backward(Lowering& lowering, const Node& node) {
  Value* image = graph::tensor_arg(node, 1);
  if (!are_images(lowering, image)) return false;
  const Pooling pooling = pooling_of(node, 2, image, graph::tensor_arg(node, 0));
  // PyTorch's kernel for channels last takes windows as if there were no padding (2.11): its result
  // is not the gradient, but what eager gives.
  if ((pooling.rows.padding != 0 || pooling.columns.padding != 0) && !image->type().is_contiguous())
    return false;
  return define_shares(lowering, node, pooling, divisor_of(node, 6));
}

bool lower_adaptive_avg_pool_backward(Lowering& lowering, const Node& node) {
  Value* image = graph::tensor_arg(node, 1);
  if (!are_images(lowering, image)) return false;
  const auto pooling = equal_windows(image, graph::tensor_arg(node, 0));
  return pooling && define_shares(lowering, node, *pooling, {});
}

}  // namespace

Handler pooling_handler(OpKind kind) {
  switch (kind) {
    case OpKind::kavg_pool2d:
      return lower_avg_pool;
    case OpKind::k_adaptive_avg_pool2d:
      return lower_adaptive_avg_pool;
    case OpKind::kmax_pool2d_with_indices_backward:
      return lower_max_pool_backward;
    case OpKind::kavg_pool2d_backward:
      return lower_avg_pool_backward;
    case OpKind::k_adaptive_avg_pool2d_backward:
      return lower_adaptive_avg_pool_backward;
    default:
      return nullptr;  // other families, or an extern call
  }
}

}  // namespace braze::loop::lowering
