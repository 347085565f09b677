// Scans of what the threads of a block have.
#include "codegen/cuda/prelude.h"

namespace braze::codegen::cuda {

std::string_view prelude_of_scans() {
  return R"(
// Running results, beside Sum and Prod: `merge` takes the result of elements behind one's own. Of
// equal ones, and of those that are not numbers, the last is kept.
template <class T, bool up> struct Top {
  T value;
  static D Top none() { return {up ? least<T>() : most<T>()}; }
  D bool yields(Top b) const { return b.value != b.value || (up ? value <= b.value : b.value <= value); }
  D void merge(Top b) { if (yields(b)) value = b.value; }
};
template <class T, bool up, class Place> struct TopAt {
  T value;
  Place place;
  static D TopAt none() { return {up ? least<T>() : most<T>(), 0}; }
  D bool yields(TopAt b) const { return b.value != b.value || (up ? value <= b.value : b.value <= value); }
  D void merge(TopAt b) { if (yields(b)) value = b.value, place = b.place; }
};
D f32 log1p_of(f32 x) { return log1pf(x); }
D f64 log1p_of(f64 x) { return log1p(x); }
// The logarithm of a sum of exponentials. Infinities are not subtracted from themselves.
template <class T> struct LogSumExp {
  T value;
  static D LogSumExp none() { return {least<T>()}; }
  D void merge(LogSumExp b) {
    const T low = minimum(value, b.value), high = maximum(value, b.value);
    const bool infinite = low == high && (low == least<T>() || low == most<T>());
    value = infinite ? high : high + log1p_of(exp_of(low - high));
  }
};

// What the thread `offset` before in a group of `count` has, or that with this number in it.
template <int count, class A> D A from_earlier_lane(A a, int offset) {
  static_assert(sizeof(A) % 4 == 0, "whole words");
  union Words { A a; u32 w[sizeof(A) / 4]; D Words() {} } mine, other;
  mine.a = a;
#pragma unroll
  for (int i = 0; i < (int)(sizeof(A) / 4); ++i)
    other.w[i] = __shfl_up_sync(0xffffffffu, mine.w[i], offset, count);
  return other.a;
}
template <int count, class A> D A from_numbered_lane(A a, int lane) {
  static_assert(sizeof(A) % 4 == 0, "whole words");
  union Words { A a; u32 w[sizeof(A) / 4]; D Words() {} } mine, other;
  mine.a = a;
#pragma unroll
  for (int i = 0; i < (int)(sizeof(A) / 4); ++i)
    other.w[i] = __shfl_sync(0xffffffffu, mine.w[i], lane, count);
  return other.a;
}
// Of `count` neighbouring threads of a warp: what those up to each have.
template <int count, class A> D A scan_lanes(A a) {
#pragma unroll
  for (int offset = 1; offset < count; offset *= 2) {
    A before = from_earlier_lane<count>(a, offset);
    if ((int)threadIdx.x % count >= offset) {
      before.merge(a);
      a = before;
    }
  }
  return a;
}
template <int count, class A> D void put_in_front(A front, A (&x)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    A both = front;
    both.merge(x[i]);
    x[i] = both;
  }
}
template <int count, class A> D void put_none(A (&x)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) x[i] = A::none();
}
template <int count, class A> D void scan_own(A (&x)[count]) {
#pragma unroll
  for (int i = 1; i < count; ++i) {
    A both = x[i - 1];
    both.merge(x[i]);
    x[i] = both;
  }
}
// Elements of a row become its running results. A thread has `lanes` neighbours in each of `rounds`,
// and the next threads have what is behind them; `carry` is what is in front of all. Parts are
// `shared` between warps, which are not to be written before another barrier.
template <int threads, int rounds, int lanes, class A>
D void scan_row(A (&x)[rounds][lanes], A& carry, A* shared) {
  constexpr int count = threads < 32 ? threads : 32, warps = threads / count;
  const int lane = threadIdx.x % count, warp = threadIdx.x / count % warps;
  A before[rounds];
#pragma unroll
  for (int r = 0; r < rounds; ++r) {
    scan_own(x[r]);
    const A upto = scan_lanes<count>(x[r][lanes - 1]);
    before[r] = from_earlier_lane<count>(upto, 1);
    if constexpr (warps == 1) {
      A front = carry;
      if (lane > 0) front.merge(before[r]);
      put_in_front(front, x[r]);
      carry.merge(from_numbered_lane<count>(upto, count - 1));
    } else {
      if (lane == count - 1) shared[r * warps + warp] = upto;
    }
  }
  if constexpr (warps > 1) {
    __syncthreads();
    // As many rounds at once as the threads of a warp have parts.
    constexpr int together = rounds * warps <= 32 ? rounds : 32 / warps, parts = together * warps;
#pragma unroll
    for (int first = 0; first < rounds; first += together) {
      const A upto = scan_lanes<parts>(shared[first * warps + lane % parts]);
#pragma unroll
      for (int r = 0; r < together; ++r) {
        const int part = r * warps + warp;
        const A earlier = from_numbered_lane<parts>(upto, part > 0 ? part - 1 : 0);
        A front = carry;
        if (part > 0) front.merge(earlier);
        if (lane > 0) front.merge(before[first + r]);
        put_in_front(front, x[first + r]);
      }
      carry.merge(from_numbered_lane<parts>(upto, parts - 1));
    }
  }
}
// Elements of columns become their running results. The thread of number threadIdx.x / width has
// the next `rounds` elements of its column. Threads are taken in groups, whose parts are combined
// first, so that neither their number nor the `width` of the block matters to results.
template <int width, int threads, int group, int rounds, class A>
D void scan_column(A (&x)[rounds], A& carry, A* shared) {
  scan_own(x);
  const A own = x[rounds - 1];
  const int number = threadIdx.x / width, column = threadIdx.x % width;
  A front = carry, within = A::none();
  if constexpr (threads == 1) {
    carry.merge(own);
  } else {
    constexpr bool is_warp = width * group == 32;
    A all = own;
    if constexpr (is_warp) {
      all = from_numbered_lane<32>(own, column);
#pragma unroll
      for (int i = 1; i < group; ++i) {
        const A next = from_numbered_lane<32>(own, i * width + column);
        if (number % group == i) within = all;
        all.merge(next);
      }
      if (number % group == 0) shared[number / group * width + column] = all;
    } else {
      shared[number * width + column] = own;
    }
    __syncthreads();
#pragma unroll 4
    for (int g = 0; g < threads / group; ++g) {
      if (g == number / group) front = carry;
      if constexpr (is_warp) {
        all = shared[g * width + column];
      } else {
        all = shared[g * group * width + column];
#pragma unroll
        for (int i = 1; i < group; ++i) {
          if (g * group + i == number) within = all;
          all.merge(shared[(g * group + i) * width + column]);
        }
      }
      carry.merge(all);
    }
    if (number % group > 0) front.merge(within);
  }
  put_in_front(front, x);
}
)";
}

}  // namespace braze::codegen::cuda
