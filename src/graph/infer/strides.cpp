#include "graph/infer/strides.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace braze::graph {
namespace {

using sym::Int;

bool contiguous_as(const TensorType& type, std::span<const int> order) {
  Int expected = 1;
  for (int dim : order) {
    if (type.sizes[dim] == Int(1)) continue;
    if (type.strides[dim] != expected) return false;
    expected = expected * type.sizes[dim];
  }
  return true;
}

constexpr int kChannelsLastOrder[] = {1, 3, 2, 0};
constexpr int kChannelsLast3dOrder[] = {1, 4, 3, 2, 0};

sym::Dims dense_strides(std::span<const Int> sizes, std::span<const int> innermost_first) {
  sym::Dims strides(sizes.size());
  Int stride = 1;
  for (int dim : innermost_first) {
    strides[dim] = stride;
    stride = stride * sym::max(sizes[dim], 1);
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

// Dimensions from the innermost outwards. Insertion sort, because pairs may be undecided.
std::vector<int> dimension_order(std::span<const sym::Dims> operand_strides,
                                 std::span<const Int> sizes) {
  // 1: `outer` belongs inside of `inner`; -1: they are in order; 0: undecided.
  auto compare = [&](int inner, int outer) {
    for (const sym::Dims& strides : operand_strides) {
      const int64_t a = strides[inner].hint(), b = strides[outer].hint();
      if (a == 0 || b == 0) continue;
      if (a < b) return -1;
      if (a > b) return 1;
      if (sizes[inner].hint() > sizes[outer].hint()) return 1;
    }
    return 0;
  };
  std::vector<int> order(sizes.size());
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
bool looks_channels_last(const TensorType& type, std::span<const int> order) {
  constexpr int kChannels = 1;
  int64_t least = 0;
  if (type.strides[kChannels] == Int(0)) return false;
  for (const int dim : order) {
    const int64_t size = type.sizes[dim].hint(), stride = type.strides[dim].hint();
    if (size == 0 || stride < least) return false;
    if (dim == 0 && least == type.strides[kChannels].hint()) return false;
    least = size > 1 ? stride * size : stride;
  }
  return true;
}

bool same_sizes(std::span<const TensorType* const> operands, std::span<const Int> sizes) {
  return std::all_of(operands.begin(), operands.end(), [&](const TensorType* operand) {
    return std::equal(operand->sizes.begin(), operand->sizes.end(), sizes.begin(), sizes.end());
  });
}

}  // namespace

sym::Dims broadcast_sizes(std::span<const TensorType* const> operands) {
  size_t rank = 0;
  for (const TensorType* operand : operands) rank = std::max(rank, operand->sizes.size());
  sym::Dims sizes(rank, 1);
  for (const TensorType* operand : operands) {
    const size_t missing = rank - operand->sizes.size();
    for (size_t i = missing; i < rank; ++i) {
      const Int size = operand->sizes[i - missing];
      if (size == Int(1) || size == sizes[i]) continue;
      BRAZE_CHECK(sizes[i] == Int(1), "sizes ", sym::to_string(size), " and ",
                  sym::to_string(sizes[i]), " of dimension ", i, " do not broadcast");
      sizes[i] = size;
    }
  }
  return sizes;
}

sym::Dims iterator_strides(std::span<const sym::Dims> operand_strides, std::span<const Int> sizes) {
  const std::vector<int> order = dimension_order(operand_strides, sizes);
  if (std::is_sorted(order.begin(), order.end(), std::greater<>()))
    return sym::contiguous_strides(sizes);
  // Unlike any other result, one that TensorIterator lays out has strides of 0 outside of an empty
  // dimension.
  sym::Dims strides(sizes.size());
  Int stride = 1;
  for (const int dim : order) {
    strides[dim] = stride;
    stride = stride * sizes[dim];
  }
  return strides;
}

bool is_dense(const TensorType& type) {
  if (type.is_contiguous()) return true;
  std::vector<int> order(type.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    // Size-1 dimensions count as innermost, as they have no extent.
    const bool a_one = type.sizes[a].hint() < 2, b_one = type.sizes[b].hint() < 2;
    if (a_one || b_one) return a_one && !b_one;
    return type.strides[a].hint() < type.strides[b].hint();
  });
  return contiguous_as(type, order);
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

sym::Dims pointwise_strides(std::span<const TensorType* const> operands,
                            std::span<const Int> sizes) {
  if (same_sizes(operands, sizes)) {
    auto all = [&](auto&& holds) { return std::all_of(operands.begin(), operands.end(), holds); };
    if (all([](const TensorType* operand) { return operand->is_contiguous(); }))
      return sym::contiguous_strides(sizes);
    if (sizes.size() == 4 &&
        all([](const TensorType* operand) { return contiguous_as(*operand, kChannelsLastOrder); }))
      return dense_strides(sizes, kChannelsLastOrder);
    if (is_dense(*operands[0]) &&
        all([&](const TensorType* operand) { return operand->strides == operands[0]->strides; }))
      return operands[0]->strides;
  }
  std::vector<sym::Dims> strides;
  for (const TensorType* operand : operands) strides.push_back(broadcast_strides(*operand, sizes));
  return iterator_strides(strides, sizes);
}

MemoryFormat suggested_format(const TensorType& type) {
  if (type.rank() == 4 && looks_channels_last(type, kChannelsLastOrder))
    return MemoryFormat::kChannelsLast;
  if (type.rank() == 5 && looks_channels_last(type, kChannelsLast3dOrder))
    return MemoryFormat::kChannelsLast3d;
  return MemoryFormat::kContiguous;
}

sym::Dims like_strides(const TensorType& type, MemoryFormat format) {
  switch (format) {
    case MemoryFormat::kContiguous:
      return sym::contiguous_strides(type.sizes);
    case MemoryFormat::kPreserve: {
      if (is_dense(type)) return type.strides;
      return dense_strides(type.sizes, dimension_order({&type.strides, 1}, type.sizes));
    }
    case MemoryFormat::kChannelsLast:
      BRAZE_CHECK(type.rank() == 4, "channels_last of a tensor of rank ", type.rank());
      return dense_strides(type.sizes, kChannelsLastOrder);
    case MemoryFormat::kChannelsLast3d:
      BRAZE_CHECK(type.rank() == 5, "channels_last_3d of a tensor of rank ", type.rank());
      return dense_strides(type.sizes, kChannelsLast3dOrder);
  }
  BRAZE_UNREACHABLE("memory format");
}

std::optional<sym::Dims> view_strides(const TensorType& type, std::span<const Int> sizes) {
  if (type.numel() == Int(0)) {
    if (std::equal(sizes.begin(), sizes.end(), type.sizes.begin(), type.sizes.end()))
      return type.strides;
    return sym::contiguous_strides(sizes);
  }
  sym::Dims strides(sizes.size());
  int64_t view_dim = static_cast<int64_t>(sizes.size()) - 1;
  if (type.sizes.empty()) {
    std::fill(strides.begin(), strides.end(), Int(1));
    return strides;
  }
  // Runs of dimensions of `type` that lie densely behind each other are split anew, each by itself.
  Int run_stride = type.strides.back(), run = 1, view_run = 1;
  for (int64_t dim = type.rank() - 1; dim >= 0; --dim) {
    run = run * type.sizes[dim];
    const bool run_ends =
        dim == 0 || (type.sizes[dim - 1] != Int(1) && type.strides[dim - 1] != run * run_stride);
    if (!run_ends) continue;
    while (view_dim >= 0 && (view_run.hint() < run.hint() || sizes[view_dim] == Int(1))) {
      strides[view_dim] = view_run * run_stride;
      view_run = view_run * sizes[view_dim];
      --view_dim;
    }
    if (view_run != run) {
      // Of a contiguous tensor all is one run; the caller knows that the sizes fit.
      if (type.is_contiguous() && view_dim == -1) return sym::contiguous_strides(sizes);
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

TensorType make_type(DType dtype, sym::Dims sizes, Device device) {
  TensorType type;
  type.dtype = dtype;
  type.device = device;
  type.strides = sym::contiguous_strides(sizes);
  type.sizes = std::move(sizes);
  return type;
}

}  // namespace braze::graph
