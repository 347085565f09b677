// Images in other sizes, and padded by their reflections, on GPUs. A gradient is the sum of what
// has read a point, so that nothing is added up in memory. On CPUs these are PyTorch's operators.
#include <algorithm>
#include <bit>
#include <cmath>

#include "graph/op_kind.h"
#include "loop/lowering/lowering.h"

namespace braze::loop::lowering {
namespace {

using graph::OpKind;
using K = ExprKind;

bool are_images(const Lowering& lowering, const Node& node) {
  const graph::TensorType& type = node.result()->type();
  const Value* value = graph::tensor_arg(node, 0);
  return lowering.on_gpu() && graph::is_float(type.dtype) && value->type().dtype == type.dtype &&
         (type.rank() == 3 || type.rank() == 4) && never_empty(type.sizes) &&
         never_empty(sizes_of(value));
}

int64_t size_along(const Value* value, int64_t dim) {  // 0: rows, 1: columns
  return sizes_of(value).rbegin()[1 - dim].constant();
}

Index with_place(IndexView index, ExprRef row, ExprRef column) {
  Index own(index.begin(), index.end());
  own.rbegin()[1] = row;
  own.back() = column;
  return own;
}

ExprRef clamped(ExprPool& pool, ExprRef at, int64_t size) {
  return pool.binary(K::kMin, pool.binary(K::kMax, at, pool.integer(0)), pool.integer(size - 1));
}

ExprRef floor_index(ExprPool& pool, ExprRef number, int64_t size) {
  ExprRef whole = pool.cast(pool.cast(number, DType::kInt32), DType::kInt64);
  return clamped(pool, whole, size);
}

// at::native::compute_scales_value: in input points for a point of the result.
template <class T>
T scale_of(std::optional<double> given, int64_t from, int64_t to) {
  return given && *given > 0 ? static_cast<T>(1.0 / *given)
                             : static_cast<T>(from) / static_cast<T>(to);
}

// The nearest point along one dimension, by at::native::nearest_neighbor_compute_source_index.
struct Nearest {
  int64_t from, to;
  float scale;

  int64_t source(int64_t at) const {
    return std::min(static_cast<int64_t>(std::floor(static_cast<float>(at) * scale)), from - 1);
  }
  bool all(const std::function<int64_t(int64_t)>& expected) const {
    for (int64_t at = 0; at < to; ++at)
      if (source(at) != expected(at)) return false;
    return true;
  }
  // Each point is repeated `factor()` times; 0: not so.
  int64_t factor() const {
    const int64_t times = to / from;
    return to % from == 0 && all([&](int64_t at) { return at / times; }) ? times : 0;
  }
  ExprRef operator()(ExprPool& pool, ExprRef at) const {
    if (const int64_t times = factor(); times > 0)
      return pool.binary(K::kFloorDiv, at, pool.integer(times));
    const int64_t step = from / to;
    if (step > 0 && all([&](int64_t i) { return i * step; })) return pool.mul(at, step);
    ExprRef place =
        pool.binary(K::kMul, pool.cast(at, DType::kFloat32), pool.constant(DType::kFloat32, scale));
    return floor_index(pool, place, from);
  }
};

// self, output_size, scales_h, scales_w
bool lower_nearest(Lowering& lowering, const Node& node) {
  if (!are_images(lowering, node)) return false;
  Value* self = graph::tensor_arg(node, 0);
  Nearest along[2];
  for (int dim = 0; dim < 2; ++dim) {
    const int64_t from = size_along(self, dim), to = size_along(node.result(), dim);
    along[dim] = {from, to, scale_of<float>(graph::optional_double_arg(node, 2 + dim), from, to)};
  }
  lowering.realise_checked(self);  // some results leave points out
  lowering.realise_heavy(self);
  Value* operands[] = {self};
  lowering.define(node, 0, lowering.traits_over(node, operands, 2),
                  [&lowering, self, rows = along[0], columns = along[1]](IndexView index) {
                    ExprPool& pool = lowering.pool();
                    return lowering.element(self, with_place(index, rows(pool, index.rbegin()[1]),
                                                             columns(pool, index.back())));
                  });
  return true;
}

// What reads a point, along one dimension: places in the result with their weights.
struct Tap {
  ExprRef at;
  double weight = 1;
};
using Taps = std::function<std::vector<Tap>(ExprPool& pool, int64_t dim, ExprRef at)>;

bool define_tapped(Lowering& lowering, const Node& node, int64_t count, Taps taps) {
  constexpr int64_t kMostTaps = 64;
  if (count > kMostTaps) return false;
  Value* grad = graph::tensor_arg(node, 0);
  lowering.realise_checked(grad);
  lowering.realise_heavy(grad);
  Value* operands[] = {grad};
  lowering.define(node, 0, lowering.traits_over(node, operands, static_cast<int>(count) * 3),
                  [&lowering, grad, taps = std::move(taps)](IndexView index) {
                    ExprPool& pool = lowering.pool();
                    const DType dtype = grad->type().dtype, compute = compute_dtype(dtype);
                    const std::vector<Tap> columns = taps(pool, 1, index.back());
                    ExprRef sum = nullptr;
                    for (const Tap& row : taps(pool, 0, index.rbegin()[1]))
                      for (const Tap& column : columns) {
                        ExprRef value =
                            lowering.element(grad, with_place(index, row.at, column.at));
                        value = pool.binary(K::kMul, pool.cast(value, compute),
                                            pool.constant(compute, row.weight * column.weight));
                        sum = sum ? pool.binary(K::kAdd, sum, value) : value;
                      }
                    return pool.cast(sum, dtype);
                  });
  return true;
}

// grad_output, output_size, input_size, scales_h, scales_w
bool lower_nearest_backward(Lowering& lowering, const Node& node) {
  if (!are_images(lowering, node)) return false;
  int64_t times[2];
  for (int dim = 0; dim < 2; ++dim) {
    const int64_t from = size_along(node.result(), dim);
    const int64_t to = size_along(graph::tensor_arg(node, 0), dim);
    const auto given = graph::optional_double_arg(node, 3 + dim);
    // at::native::nearest_neighbor_bw_compute_source_index: where the points begin that are read
    // from a point.
    const float scale = given && *given > 0 ? static_cast<float>(*given)
                                            : static_cast<float>(to) / static_cast<float>(from);
    times[dim] = to / from;
    for (int64_t at = 0; at <= from; ++at)
      if (std::min<int64_t>(std::ceil(static_cast<float>(at) * scale), to) != at * times[dim])
        return false;
  }
  return define_tapped(
      lowering, node, times[0] * times[1],
      [rows = times[0], columns = times[1]](ExprPool& pool, int64_t dim, ExprRef at) {
        const int64_t count = dim == 0 ? rows : columns;
        std::vector<Tap> taps;
        for (int64_t i = 0; i < count; ++i)
          taps.push_back({pool.add(pool.mul(at, count), pool.integer(i))});
        return taps;
      });
}

// The two points around a place, and how far it is from the first, by
// at::native::area_pixel_compute_source_index.
class Linear {
 public:
  Linear(int64_t from, int64_t to, bool align_corners, double scale)
      : from_(from), to_(to), align_corners_(align_corners), scale_(scale) {}

  struct Between {
    ExprRef first, second, to_first, to_second;  // places and their weights
  };
  Between operator()(ExprPool& pool, ExprRef at, DType dtype) const {
    const auto number = [&](double value) { return pool.constant(dtype, value); };
    if (const int64_t times = exact_factor(); times > 0) {
      ExprRef parts = pool.add(pool.mul(at, 2), pool.integer(1 - times));  // of 2 * times each
      parts = pool.binary(K::kMax, parts, pool.integer(0));
      ExprRef rest = pool.binary(K::kMod, parts, pool.integer(2 * times));
      return between(
          pool, pool.binary(K::kFloorDiv, parts, pool.integer(2 * times)),
          pool.binary(K::kMul, pool.cast(rest, dtype), number(0.5 / static_cast<double>(times))));
    }
    ExprRef place = pool.cast(at, dtype);
    if (align_corners_) {
      place = pool.binary(K::kMul, place, number(scale_));
    } else {
      place = pool.binary(K::kMul, pool.binary(K::kAdd, place, number(0.5)), number(scale_));
      place = pool.binary(K::kMax, pool.binary(K::kSub, place, number(0.5)), number(0));
    }
    ExprRef first = floor_index(pool, place, from_);
    return between(pool, first, pool.binary(K::kSub, place, pool.cast(first, dtype)));
  }

 private:
  Between between(ExprPool& pool, ExprRef first, ExprRef distance) const {
    ExprRef second =
        pool.binary(K::kMin, pool.add(first, pool.integer(1)), pool.integer(from_ - 1));
    ExprRef rest = pool.binary(K::kSub, pool.constant(distance->dtype, 1), distance);
    return {first, second, rest, distance};
  }
  // How many times as large the result is, if whole numbers give the very places and distances.
  int64_t exact_factor() const {
    constexpr int64_t kMostPoints = 1 << 20;
    const int64_t times = to_ / from_;
    const bool exact = !align_corners_ && to_ == times * from_ && times > 1 && to_ < kMostPoints &&
                       std::has_single_bit(static_cast<uint64_t>(times));
    return exact && scale_ * static_cast<double>(times) == 1 ? times : 0;
  }

  int64_t from_, to_;
  bool align_corners_;
  double scale_;
};

double linear_scale(bool align_corners, std::optional<double> given, int64_t from, int64_t to,
                    DType dtype) {
  const auto of = [&]<class T>(T) -> double {
    if (align_corners) return to > 1 ? static_cast<T>(from - 1) / static_cast<T>(to - 1) : T(0);
    return scale_of<T>(given, from, to);
  };
  return dtype == DType::kFloat64 ? of(double()) : of(float());
}

// self, output_size, align_corners, scales_h, scales_w
bool lower_bilinear(Lowering& lowering, const Node& node) {
  if (!are_images(lowering, node)) return false;
  Value* self = graph::tensor_arg(node, 0);
  const DType dtype = self->type().dtype, compute = compute_dtype(dtype);
  const bool align_corners = graph::bool_arg(node, 2);
  const auto along = [&](int dim) {
    const int64_t from = size_along(self, dim), to = size_along(node.result(), dim);
    const auto given = graph::optional_double_arg(node, 3 + dim);
    return Linear(from, to, align_corners, linear_scale(align_corners, given, from, to, compute));
  };
  lowering.realise_checked(self);
  lowering.realise_heavy(self);
  Value* operands[] = {self};
  const bool copies = sizes_of(self) == sizes_of(node.result());  // whatever the scales are
  lowering.define(node, 0, lowering.traits_over(node, operands, 30),
                  [&lowering, self, dtype, compute, copies, along_rows = along(0),
                   along_columns = along(1)](IndexView index) {
                    ExprPool& pool = lowering.pool();
                    if (copies) return lowering.element(self, index);
                    const auto rows = along_rows(pool, index.rbegin()[1], compute);
                    const auto columns = along_columns(pool, index.back(), compute);
                    const auto point = [&](ExprRef row, ExprRef column, ExprRef weight) {
                      ExprRef value = lowering.element(self, with_place(index, row, column));
                      return pool.binary(K::kMul, weight, pool.cast(value, compute));
                    };
                    const auto line = [&](ExprRef row, ExprRef weight) {
                      ExprRef sum =
                          pool.binary(K::kAdd, point(row, columns.first, columns.to_first),
                                      point(row, columns.second, columns.to_second));
                      return pool.binary(K::kMul, weight, sum);
                    };
                    return pool.cast(pool.binary(K::kAdd, line(rows.first, rows.to_first),
                                                 line(rows.second, rows.to_second)),
                                     dtype);
                  });
  return true;
}

// grad_output, output_size, input_size, align_corners, scales_h, scales_w. Of images twice as
// large, point i is read by points 2i - 1 to 2i + 2, and at an edge those beyond it are the last
// one again, which reads the edge alone.
bool lower_bilinear_backward(Lowering& lowering, const Node& node) {
  if (!are_images(lowering, node) || graph::bool_arg(node, 3)) return false;
  Value* grad = graph::tensor_arg(node, 0);
  for (int dim = 0; dim < 2; ++dim) {
    const auto given = graph::optional_double_arg(node, 4 + dim);
    if (size_along(grad, dim) != 2 * size_along(node.result(), dim) ||
        (given && *given > 0 && *given != 2))
      return false;
  }
  const int64_t height = size_along(grad, 0), width = size_along(grad, 1);
  return define_tapped(
      lowering, node, 16, [height, width](ExprPool& pool, int64_t dim, ExprRef at) {
        std::vector<Tap> taps;
        for (int64_t i = -1; i <= 2; ++i) {
          ExprRef place = pool.add(pool.mul(at, 2), pool.integer(i));
          taps.push_back(
              {clamped(pool, place, dim == 0 ? height : width), i == 0 || i == 1 ? 0.75 : 0.25});
        }
        return taps;
      });
}

// Padding along one dimension of an image.
struct Reflection {
  int64_t size, before, after;

  ExprRef source(ExprPool& pool, ExprRef at) const {
    const auto mirrored = [&](ExprRef place, int64_t around) {
      return pool.binary(K::kSub, pool.integer(2 * around), place);
    };
    ExprRef place = pool.add(at, pool.integer(-before));
    if (before > 0) place = pool.binary(K::kMax, place, mirrored(place, 0));
    if (after > 0) place = pool.binary(K::kMin, place, mirrored(place, size - 1));
    return place;
  }
};

// Padding begins with the last dimension.
Reflection reflection_of(const Node& node, int argument, int64_t dim, const Value* image) {
  const std::vector<int64_t> padding = graph::ints_arg(node, argument);
  const size_t first = dim == 1 ? 0 : 2;
  return {size_along(image, dim), padding.at(first), padding.at(first + 1)};
}

// self, padding
bool lower_reflection(Lowering& lowering, const Node& node) {
  if (!are_images(lowering, node)) return false;
  Value* self = graph::tensor_arg(node, 0);
  const Reflection rows = reflection_of(node, 1, 0, self);
  const Reflection columns = reflection_of(node, 1, 1, self);
  lowering.realise_checked(self);  // negative padding leaves elements out
  Value* operands[] = {self};
  lowering.define(node, 0, lowering.traits_over(node, operands, 6),
                  [&lowering, self, rows, columns](IndexView index) {
                    ExprPool& pool = lowering.pool();
                    const Index own = with_place(index, rows.source(pool, index.rbegin()[1]),
                                                 columns.source(pool, index.back()));
                    return lowering.element_within(self, own, sizes_of(self));
                  });
  return true;
}

// grad_output, self, padding: a point and its reflections at both ends.
bool lower_reflection_backward(Lowering& lowering, const Node& node) {
  if (!are_images(lowering, node)) return false;
  Value* grad = graph::tensor_arg(node, 0);
  const Reflection rows = reflection_of(node, 2, 0, node.result());
  const Reflection columns = reflection_of(node, 2, 1, node.result());
  for (const Reflection& one : {rows, columns})
    if (one.before < 0 || one.after < 0) return false;
  lowering.realise_checked(grad);
  lowering.realise_heavy(grad);
  Value* operands[] = {grad};
  lowering.define(
      node, 0, lowering.traits_over(node, operands, 60),
      [&lowering, grad, rows, columns](IndexView index) {
        ExprPool& pool = lowering.pool();
        const DType dtype = grad->type().dtype, compute = compute_dtype(dtype);
        // The sum of `line` over the places in the padded image that point `at` stands at.
        const auto over = [&](const Reflection& along, ExprRef at,
                              const std::function<ExprRef(ExprRef)>& line) {
          const auto [size, before, after] = along;
          const auto place = [&](int64_t around) {
            return pool.binary(K::kSub, pool.integer(2 * around + before), at);
          };
          const auto between = [&](int64_t first, int64_t end) {
            return pool.binary(K::kAnd, pool.binary(K::kLe, pool.integer(first), at),
                               pool.binary(K::kLt, at, pool.integer(end)));
          };
          const auto masked = [&](ExprRef condition, ExprRef value) {
            return pool.masked(condition, value, pool.number(compute, 0));
          };
          ExprRef sum = line(pool.add(at, pool.integer(before)));
          if (before > 0)
            sum = pool.binary(K::kAdd, sum, masked(between(1, before + 1), line(place(0))));
          if (after > 0)
            sum = pool.binary(K::kAdd, sum,
                              masked(between(size - 1 - after, size - 1), line(place(size - 1))));
          return sum;
        };
        ExprRef sum = over(rows, index.rbegin()[1], [&](ExprRef row) {
          return over(columns, index.back(), [&](ExprRef column) {
            const Index own = with_place(index, row, column);
            return pool.cast(lowering.element_within(grad, own, sizes_of(grad)), compute);
          });
        });
        return pool.cast(sum, dtype);
      });
  return true;
}

}  // namespace

Handler resampling_handler(OpKind kind) {
  switch (kind) {
    case OpKind::kupsample_nearest2d:
      return lower_nearest;
    case OpKind::kupsample_nearest2d_backward:
      return lower_nearest_backward;
    case OpKind::kupsample_bilinear2d:
      return lower_bilinear;
    case OpKind::kupsample_bilinear2d_backward:
      return lower_bilinear_backward;
    case OpKind::kreflection_pad2d:
      return lower_reflection;
    case OpKind::kreflection_pad2d_backward:
      return lower_reflection_backward;
    default:
      return nullptr;  // other families, or an extern call
  }
}

}  // namespace braze::loop::lowering
