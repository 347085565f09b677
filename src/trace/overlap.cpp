#include "trace/overlap.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace braze::trace {
namespace {

constexpr int64_t kMostElementsSeen = int64_t{1} << 18;  // of a tensor that is looked through

// In bytes.
struct Layout {
  explicit Layout(const graph::TensorType& type) : item(graph::size_of(type.dtype)) {
    begin = type.offset.hint() * item;
    end = begin + item;
    for (int64_t d = 0; d < type.rank(); ++d) {
      const int64_t size = type.sizes[d].hint(), stride = type.strides[d].hint() * item;
      count *= size;
      if (size <= 1) continue;
      sizes.push_back(size);
      strides.push_back(stride);
      end += (size - 1) * stride;
    }
  }

  template <typename Function>
  void for_each_element(Function function) const {
    std::vector<int64_t> index(sizes.size(), 0);
    for (int64_t at = begin;;) {
      function(at);
      size_t d = sizes.size();
      while (d > 0) {
        --d;
        at += strides[d];
        if (++index[d] < sizes[d]) break;
        at -= sizes[d] * strides[d];
        index[d] = 0;
        if (d == 0) return;
      }
      if (sizes.empty()) return;
    }
  }

  int64_t item, begin, end, count = 1;
  std::vector<int64_t> sizes, strides;  // of the dimensions with more than one element
};

// Of equal strides, from dimension `d` on: whether steps within the sizes make up a distance. What
// is left must fit in the dimensions within, so that one of two numbers of steps does it.
bool meet(const Layout& one, const Layout& other, int64_t distance, size_t d) {
  if (d == one.strides.size()) return std::abs(distance) < one.item;
  const int64_t stride = one.strides[d];
  if (stride <= 0) return false;
  int64_t steps = distance / stride;
  if (distance < 0 && steps * stride != distance) --steps;
  for (const int64_t k : {steps, steps + 1})
    if (k < one.sizes[d] && -k < other.sizes[d] && meet(one, other, distance - k * stride, d + 1))
      return true;
  return false;
}

}  // namespace

Overlap overlap_of(const graph::TensorType& a, const graph::TensorType& b) {
  const Layout one(a), other(b);
  if (one.count == 0 || other.count == 0) return Overlap::kNone;
  if (one.begin >= other.end || other.begin >= one.end) return Overlap::kNone;
  if (one.item == other.item && one.begin == other.begin && one.sizes == other.sizes &&
      one.strides == other.strides)
    return Overlap::kFull;
  if (std::max(one.count, other.count) > kMostElementsSeen)
    return one.item == other.item && one.strides == other.strides &&
                   meet(one, other, other.begin - one.begin, 0)
               ? Overlap::kPartial
               : Overlap::kNone;
  const int64_t begin = std::max(one.begin, other.begin), end = std::min(one.end, other.end);
  std::vector<bool> covered(static_cast<size_t>(end - begin));
  const auto bytes_of = [&](const Layout& layout, auto function) {
    layout.for_each_element([&](int64_t at) {
      for (int64_t byte = std::max(at, begin); byte < std::min(at + layout.item, end); ++byte)
        function(static_cast<size_t>(byte - begin));
    });
  };
  bool found = false;
  bytes_of(one, [&](size_t byte) { covered[byte] = true; });
  bytes_of(other, [&](size_t byte) { found = found || covered[byte]; });
  return found ? Overlap::kPartial : Overlap::kNone;
}

}  // namespace braze::trace
