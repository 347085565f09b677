// What many threads do to the same elements.
#include "codegen/cuda/prelude.h"

namespace braze::codegen::cuda {

std::string_view prelude_of_atomics() {
  return R"(
D void add_to(f32* p, f32 x) { atomicAdd(p, x); }
D void add_to(f64* p, f64 x) { atomicAdd(p, x); }
D void add_to(u32* p, u32 x) { if (x != 0) atomicAdd(p, x); }
D void add_to(i32* p, i32 x) { if (x != 0) atomicAdd((u32*)p, (u32)x); }
D void add_to(i64* p, i64 x) { if (x != 0) atomicAdd((u64*)p, (u64)x); }
// The sums of a pack, of which the first `count` are made.
template <int N> D void add_pack(f32* p, const f32 (&x)[N], int count = N) {
#if __CUDA_ARCH__ >= 900
  if (count == N) {
    if constexpr (N % 4 == 0) {
#pragma unroll
      for (int i = 0; i < N; i += 4) add_four(p + i, x[i], x[i + 1], x[i + 2], x[i + 3]);
    } else {
      static_assert(N == 2, "packs are of 2, or of multiples of 4");
      add_two(p, x[0], x[1]);
    }
    return;
  }
#endif
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < count) add_to(p + i, x[i]);
}
template <class I> D I of_lane(I place, int lane) {
  static_assert(sizeof(I) % 4 == 0, "whole words");
  union Words { I place; u32 w[sizeof(I) / 4]; } mine, other;
  mine.place = place;
#pragma unroll
  for (int i = 0; i < (int)(sizeof(I) / 4); ++i) other.w[i] = __shfl_sync(0xffffffffu, mine.w[i], lane, 32);
  return other.place;
}
// Whether so many threads of a warp are to add where one of the first `columns` does that those add
// for them. `same`: whether this one is among them.
template <int columns, class I> D bool are_many(I place, bool& same) {
  same = place == of_lane(place, threadIdx.x % columns);
  return __popc(__ballot_sync(0xffffffffu, same)) >= (columns > 4 ? 2 * columns : 8);
}
// The sum of the threads with the same place among `columns`.
template <int columns, class T> D T over_rows(T x) {
  Sum<T> sum = {x};
#pragma unroll
  for (int offset = columns; offset < 32; offset *= 2) sum.merge(from_lane(sum, offset));
  return sum.value;
}
// Sums of neighbours that may be in one place, as rows of `columns` elements are.
template <int columns = 1, class T, class I> D void add_together(T* p, I place, T x) {
  bool same;
  if (__activemask() == 0xffffffffu && are_many<columns>(place, same)) {
    const T sum = over_rows<columns>(same ? x : (T)0);
    if (threadIdx.x % 32 < columns) add_to(p + place, sum);
    if (same) return;
  }
  add_to(p + place, x);
}
template <int columns, int N> D void add_pack_together(f32* p, const f32 (&x)[N], int count = N) {
  bool same;
  if (__activemask() == 0xffffffffu && are_many<columns>((u64)p, same)) {
    f32 sum[N];
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] = over_rows<columns>(same && i < count ? x[i] : 0.0f);
    if (threadIdx.x % 32 < columns) add_pack(p, sum, count);
    if (same) return;
  }
  add_pack(p, x, count);
}
// The sums of several lanes of a thread, of which the first `count` are made. `packs`: where places
// lie side by side they are a pack.
template <bool packs, int N, class T, class I> D void add_all(T* p, const I (&place)[N], const T (&x)[N], int count = N) {
  bool same = count == N;
#pragma unroll
  for (int i = 1; i < N; ++i) same = same && place[i] == place[0];
  if (same) {
    T sum = x[0];
#pragma unroll
    for (int i = 1; i < N; ++i) sum += x[i];
    return add_together(p, place[0], sum);
  }
  if constexpr (packs && sizeof(T) == 4 && (T)0.5f != 0) {
    bool together = count == N && (u64)(p + place[0]) % (N < 4 ? 8 : 16) == 0;
#pragma unroll
    for (int i = 1; i < N; ++i) together = together && place[i] == place[0] + i;
    if (together) return add_pack(p + place[0], x);
  }
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < count) add_together(p, place[i], x[i]);
}

D u32 word_of(f32 x) { return bits_as<u32>(x); }
D u32 word_of(i32 x) { return (u32)x; }
D u64 word_of(f64 x) { return bits_as<u64>(x); }
D u64 word_of(i64 x) { return (u64)x; }
// Makes of an element what `next` makes of it.
template <class T, class Next> D void change(T* p, Next next) {
  typedef decltype(word_of(T())) Word;
  Word old = *(volatile Word*)p;
  while (true) {
    const Word wanted = word_of(next(bits_as<T>(old)));
    if (wanted == old) return;
    const Word seen = atomicCAS((Word*)p, old, wanted);
    if (seen == old) return;
    old = seen;
  }
}
template <class T> D void most_to(T* p, T x) { change(p, [x](T a) { return maximum(a, x); }); }
template <class T> D void least_to(T* p, T x) { change(p, [x](T a) { return minimum(a, x); }); }
D void multiply_to(f32* p, f32 x) { change(p, [x](f32 a) { return a * x; }); }
D void multiply_to(f64* p, f64 x) { change(p, [x](f64 a) { return a * x; }); }
D void multiply_to(i32* p, i32 x) { change(p, [x](i32 a) { return (i32)((u32)a * (u32)x); }); }
D void multiply_to(i64* p, i64 x) { change(p, [x](i64 a) { return (i64)((u64)a * (u64)x); }); }
)";
}

}  // namespace braze::codegen::cuda
