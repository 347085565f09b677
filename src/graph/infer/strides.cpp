#include "graph/infer/strides.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace braze::graph {
namespace {

using sym::Int;
using Order = std::vector<int>;  // dimensions from the innermost outwards

constexpr int kChannelsLastOrder[] = {1, 3, 2, 0};
constexpr int kChannelsLast3dOrder[] = {1, 4, 3, 2, 0};

bool are_constants(std::span<const Int> dims) {
  return std::ranges::all_of(dims, [](const Int& dim) { return dim.is_constant(); });
}

bool is_symbolic(const TensorType& type) {
  return !are_constants(type.sizes) || !are_constants(type.strides) || !type.offset.is_constant();
}

// Dense when dimensions are walked in this order; those of size 1 may have any stride.
bool is_dense_in(const TensorType& type, std::span<const int> order, SizeQuestions& ask) {
  Int expected = 1;
  for (const int dim : order) {
    const Int& size = type.sizes[dim];
    if (size == Int(1)) continue;
    if (!ask.surely_equal(type.strides[dim], expected)) {
      if (ask.surely_equal(size, 1)) continue;
      return false;
    }
    expected = expected * size;
  }
  return true;
}

sym::Dims dense_strides(std::span<const Int> sizes, std::span<const int> order,
                        SizeQuestions& ask) {
  sym::Dims strides(sizes.size());
  Int stride = 1;
  for (const int dim : order) {
    strides[dim] = stride;
    stride = stride * ask.spanned(sizes[dim]);
  }
  return strides;
}

// The same with strides of 0 outside of an empty dimension.
sym::Dims packed_strides(std::span<const Int> sizes, std::span<const int> order) {
  sym::Dims strides(sizes.size());
  Int stride = 1;
  for (const int dim : order) {
    strides[dim] = stride;
    stride = stride * sizes[dim];
  }
  return strides;
}

// Strides of `type` seen with the broadcast `sizes`; 0 where it is broadcast.
sym::Dims broadcast_strides(const TensorType& type, std::span<const Int> sizes) {
  sym::Dims strides(sizes.size(), 0);
  const size_t missing = sizes.size() - type.sizes.size();
  for (size_t i = missing; i < sizes.size(); ++i) {
    const bool broadcast = type.sizes[i - missing] == Int(1) && sizes[i] != Int(1);
    strides[i] = broadcast ? Int(0) : type.strides[i - missing];
  }
  return strides;
}

// As TensorIterator::reorder_dimensions sorts them (and at::infer_dense_strides for one tensor): by
// insertion, because pairs may be undecided.
Order dimension_order(std::span<const sym::Dims> operand_strides, std::span<const Int> sizes,
                      SizeQuestions& ask) {
  // 1: `outer` belongs inside of `inner`; -1: they are in order; 0: undecided.
  auto compare = [&](int inner, int outer) {
    for (const sym::Dims& strides : operand_strides) {
      const Int &a = strides[inner], &b = strides[outer];
      if (a == Int(0) || b == Int(0)) continue;
      if (ask.less_for_most_sizes(a, b)) return -1;
      if (ask.less_for_most_sizes(b, a)) return 1;
      if (ask.less_for_most_sizes(sizes[outer], sizes[inner])) return 1;
    }
    return 0;
  };
  Order order(sizes.size());
  std::iota(order.rbegin(), order.rend(), 0);
  for (size_t i = 1; i < order.size(); ++i) {
    size_t place = i;
    for (size_t before = i; before-- > 0;) {
      const int result = compare(order[before], order[place]);
      if (result > 0) {
        std::swap(order[before], order[place]);
        place = before;
      } else if (result < 0) {
        break;
      }
    }
  }
  return order;
}

// As c10::is_channels_last_strides_2d and _3d: strides that grow in this order, where sizes of 1
// leave no doubt that it is not the row-major one.
bool looks_channels_last(const TensorType& type, std::span<const int> order, SizeQuestions& ask) {
  constexpr int kChannels = 1;
  Int least = 0;
  if (ask.equal(type.strides[kChannels], 0)) return false;
  for (const int dim : order) {
    const Int &size = type.sizes[dim], &stride = type.strides[dim];
    const bool is_empty =
        size.is_constant() || !ask.may_be_empty(size) ? ask.equal(size, 0) : false;
    if (is_empty || ask.less(stride, least)) return false;
    if (dim == 0 && ask.equal(least, type.strides[kChannels])) return false;
    least = ask.less(1, size) ? stride * size : stride;
  }
  return true;
}

bool may_be_empty(std::span<const Int> sizes, SizeQuestions& ask) {
  return std::ranges::any_of(sizes, [&](const Int& size) { return ask.may_be_empty(size); });
}

// What is plain to see of symbolic sizes: with more than one channel no row-major tensor looks as
// if its channels were last, and no tensor of more than one pixel whose channels are last looks
// row-major.
std::optional<MemoryFormat> obvious_format(const TensorType& type, SizeQuestions& ask) {
  if (!is_symbolic(type)) return std::nullopt;
  const sym::Dims& sizes = type.sizes;
  if (may_be_empty(sizes, ask)) return std::nullopt;
  const bool has_channels = sizes.size() == 4 || sizes.size() == 5;
  if (has_channels && (!sizes[1].is_constant() || sizes[1].constant() < 2)) return std::nullopt;
  if (type.strides == row_major_strides(sizes, ask)) return MemoryFormat::kContiguous;
  const MemoryFormat last =
      sizes.size() == 4 ? MemoryFormat::kChannelsLast : MemoryFormat::kChannelsLast3d;
  if (!has_channels || type.strides != format_strides(sizes, last, ask)) return std::nullopt;
  if (!ask.less(1, sizes.back()) && !ask.less(1, sizes[sizes.size() - 2])) return std::nullopt;
  return last;
}

// at::Tensor::is_contiguous: dimensions of size 1 may have any stride, and what is empty is
// contiguous.
bool is_contiguous(const TensorType& type, SizeQuestions& ask) {
  if (type.is_contiguous()) return true;
  if (!is_symbolic(type)) return false;
  if (const auto format = obvious_format(type, ask)) return *format == MemoryFormat::kContiguous;
  Order order(type.sizes.size());
  std::iota(order.rbegin(), order.rend(), 0);
  return is_dense_in(type, order, ask);
}

bool is_channels_last(const TensorType& type, SizeQuestions& ask) {
  if (const auto format = obvious_format(type, ask)) return *format == MemoryFormat::kChannelsLast;
  return is_dense_in(type, kChannelsLastOrder, ask);
}

bool is_dense(const TensorType& type, SizeQuestions& ask) {
  if (!is_symbolic(type)) return is_dense(type);
  return is_dense_in(type, dimension_order({&type.strides, 1}, type.sizes, ask), ask);
}

}  // namespace

bool is_empty(std::span<const Int> sizes) {
  return std::ranges::find(sizes, Int(0)) != sizes.end();
}

std::optional<sym::Dims> try_broadcast(std::span<const TensorType* const> operands,
                                       SizeQuestions& ask) {
  size_t rank = 0;
  for (const TensorType* operand : operands) rank = std::max(rank, operand->sizes.size());
  sym::Dims sizes(rank, 1);
  for (const TensorType* operand : operands) {
    const size_t missing = rank - operand->sizes.size();
    for (size_t i = missing; i < rank; ++i) {
      const Int size = operand->sizes[i - missing];
      if (size == Int(1)) continue;
      if (sizes[i] == Int(1))
        sizes[i] = size;
      else if (!ask.expect_equal(sizes[i], size))
        return std::nullopt;
    }
  }
  return sizes;
}

sym::Dims broadcast_sizes(std::span<const TensorType* const> operands) {
  std::optional<sym::Dims> sizes = try_broadcast(operands, traced_sizes());
  BRAZE_CHECK(sizes, "sizes that do not broadcast, those of ", to_string(*operands[0]),
              " and others");
  return std::move(*sizes);
}

sym::Dims iterator_strides(std::span<const sym::Dims> operand_strides, std::span<const Int> sizes,
                           SizeQuestions& ask) {
  const Order order = dimension_order(operand_strides, sizes, ask);
  if (std::is_sorted(order.begin(), order.end(), std::greater<>()))
    return row_major_strides(sizes, ask);
  return packed_strides(sizes, order);
}

sym::Dims row_major_strides(std::span<const Int> sizes, SizeQuestions& ask) {
  sym::Dims strides(sizes.size());
  Int stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    if (i > 0) stride = stride * ask.spanned(sizes[i]);
  }
  return strides;
}

bool is_row_major(const TensorType& type, SizeQuestions& ask) {
  Int stride = 1;
  for (size_t i = type.sizes.size(); i-- > 0;) {
    if (!ask.surely_equal(type.strides[i], stride)) return false;
    if (i > 0) stride = stride * ask.spanned(type.sizes[i]);
  }
  return true;
}

bool is_dense(const TensorType& type) {
  if (type.is_contiguous()) return true;
  Order order(type.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    // Size-1 dimensions count as innermost, as they have no extent.
    const bool a_one = type.sizes[a].hint() < 2, b_one = type.sizes[b].hint() < 2;
    if (a_one || b_one) return a_one && !b_one;
    return type.strides[a].hint() < type.strides[b].hint();
  });
  return is_dense_in(type, order, traced_sizes());
}

bool may_overlap_itself(const TensorType& type) {
  if (type.is_contiguous()) return false;
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (size_t i = 0; i < type.sizes.size(); ++i) {
    if (type.sizes[i].hint() == 0) return false;
    if (type.sizes[i].hint() > 1) dims.emplace_back(type.strides[i].hint(), type.sizes[i].hint());
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;  // of the dimensions so far
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

sym::Dims pointwise_strides(std::span<const TensorType* const> operands, std::span<const Int> sizes,
                            SizeQuestions& ask, bool* row_major) {
  auto all = [&](auto&& holds) { return std::ranges::all_of(operands, holds); };
  // A row-major operand of lower rank or with broadcast dims leaves the order of dims as it is, but
  // for dimensions of size 0, which go inside of those of size 1.
  if (!is_empty(sizes) && all([&](const TensorType* type) { return is_row_major(*type, ask); })) {
    if (row_major) *row_major = true;
    return row_major_strides(sizes, ask);
  }
  if (all([&](const TensorType* type) { return ask.all_equal(type->sizes, sizes); })) {
    if (all([&](const TensorType* type) { return is_contiguous(*type, ask); }))
      return row_major_strides(sizes, ask);
    if (sizes.size() == 4 &&
        all([&](const TensorType* type) { return is_channels_last(*type, ask); }))
      return format_strides(sizes, MemoryFormat::kChannelsLast, ask);
    const TensorType& last = *operands.back();
    if (all([&](const TensorType* type) { return ask.all_equal(type->strides, last.strides); }) &&
        is_dense(last, ask))
      return last.strides;
  }
  std::vector<sym::Dims> strides;
  strides.reserve(operands.size());
  for (const TensorType* operand : operands) strides.push_back(broadcast_strides(*operand, sizes));
  return iterator_strides(strides, sizes, ask);
}

MemoryFormat suggested_format(const TensorType& type, SizeQuestions& ask) {
  if (type.rank() == 4 && looks_channels_last(type, kChannelsLastOrder, ask))
    return MemoryFormat::kChannelsLast;
  if (type.rank() == 5 && looks_channels_last(type, kChannelsLast3dOrder, ask))
    return MemoryFormat::kChannelsLast3d;
  return MemoryFormat::kContiguous;
}

bool is_dense_in_format(const TensorType& type, MemoryFormat format, SizeQuestions& ask) {
  switch (format) {
    case MemoryFormat::kContiguous:
      return is_contiguous(type, ask);
    case MemoryFormat::kChannelsLast:
      return type.rank() == 4 && is_channels_last(type, ask);
    case MemoryFormat::kChannelsLast3d:
      return type.rank() == 5 && is_dense_in(type, kChannelsLast3dOrder, ask);
    case MemoryFormat::kPreserve:
      break;
  }
  BRAZE_UNREACHABLE("dense in no format");
}

std::optional<MemoryFormat> plain_format(const TensorType& type, SizeQuestions& ask) {
  if (const auto format = obvious_format(type, ask)) return format;
  const MemoryFormat suggested = suggested_format(type, ask);
  const bool contiguous = is_contiguous(type, ask);
  if (contiguous != (suggested == MemoryFormat::kContiguous)) return std::nullopt;
  if (contiguous) return suggested;
  const bool dense = suggested == MemoryFormat::kChannelsLast
                         ? is_dense_in(type, kChannelsLastOrder, ask)
                         : is_dense_in(type, kChannelsLast3dOrder, ask);
  return dense ? std::optional(suggested) : std::nullopt;
}

sym::Dims format_strides(std::span<const Int> sizes, MemoryFormat format, SizeQuestions& ask) {
  switch (format) {
    case MemoryFormat::kContiguous:
      return row_major_strides(sizes, ask);
    case MemoryFormat::kChannelsLast:
      BRAZE_CHECK(sizes.size() == 4, "channels_last of a tensor of rank ", sizes.size());
      return packed_strides(sizes, kChannelsLastOrder);
    case MemoryFormat::kChannelsLast3d:
      BRAZE_CHECK(sizes.size() == 5, "channels_last_3d of a tensor of rank ", sizes.size());
      return packed_strides(sizes, kChannelsLast3dOrder);
    case MemoryFormat::kPreserve:
      break;
  }
  BRAZE_UNREACHABLE("strides of no format");
}

sym::Dims like_strides(const TensorType& type, MemoryFormat format, SizeQuestions& ask,
                       bool* row_major) {
  if (format != MemoryFormat::kPreserve) return format_strides(type.sizes, format, ask);
  if (!is_symbolic(type)) {
    if (is_dense(type)) return type.strides;
  } else {
    if (obvious_format(type, ask).value_or(MemoryFormat::kContiguous) != MemoryFormat::kContiguous)
      return type.strides;
    if (is_row_major(type, ask)) {
      if (row_major) *row_major = true;
      return row_major_strides(type.sizes, ask);
    }
    if (is_empty(type.sizes)) return type.strides;  // what has no elements counts as dense
  }
  const Order order = dimension_order({&type.strides, 1}, type.sizes, ask);
  if (is_symbolic(type) && is_dense_in(type, order, ask)) return type.strides;
  return dense_strides(type.sizes, order, ask);
}

std::optional<sym::Dims> view_strides(const TensorType& type, std::span<const Int> sizes,
                                      SizeQuestions& ask) {
  if (is_empty(type.sizes))
    return ask.all_equal(sizes, type.sizes) ? type.strides : row_major_strides(sizes, ask);
  sym::Dims strides(sizes.size(), 1);
  if (type.sizes.empty()) return strides;
  int64_t view_dim = static_cast<int64_t>(sizes.size()) - 1;
  // Runs of dimensions of `type` that lie densely behind each other are split anew, each by itself.
  Int run_stride = type.strides.back(), run = 1, view_run = 1;
  for (int64_t dim = type.rank() - 1; dim >= 0; --dim) {
    run = run * type.sizes[dim];
    const bool joined = dim > 0 && (type.sizes[dim - 1] == Int(1) ||
                                    ask.equal(type.strides[dim - 1], run * run_stride));
    if (joined) continue;
    while (view_dim >= 0 && (sizes[view_dim] == Int(1) || ask.less(view_run, run))) {
      strides[view_dim] = view_run * run_stride;
      view_run = view_run * sizes[view_dim];
      --view_dim;
    }
    if (!ask.equal(view_run, run)) {
      // Of a contiguous tensor all is one run; the caller knows that the sizes fit.
      if (type.is_contiguous() && view_dim == -1) return row_major_strides(sizes, ask);
      return std::nullopt;
    }
    if (dim > 0) {
      run_stride = type.strides[dim - 1];
      run = 1;
      view_run = 1;
    }
  }
  if (view_dim != -1) return std::nullopt;
  return strides;
}

TensorType make_type(DType dtype, sym::Dims sizes, Device device, SizeQuestions& ask) {
  TensorType type;
  type.dtype = dtype;
  type.device = device;
  type.strides = row_major_strides(sizes, ask);
  type.sizes = std::move(sizes);
  return type;
}

}  // namespace braze::graph
