#include "codegen/cuda/prelude.h"

#include <string>

namespace braze::codegen::cuda {
namespace {

// Once, where several sources stand behind each other in one program.
constexpr std::string_view kBegin = R"(
#ifndef BRAZE_PRELUDE
#define BRAZE_PRELUDE
)";
constexpr std::string_view kEnd = R"(
#endif
)";

constexpr std::string_view kTypes = R"(
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
#define D __device__ __forceinline__

D f32 from_f16(u16 h) { f32 f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
D u16 to_f16(f32 f) { u16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
D f32 from_bf16(u16 h) { return __uint_as_float((u32)h << 16); }
D u16 to_bf16(f32 f) {
#if __CUDA_ARCH__ >= 800
  u16 h; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h;
#else
  if (f != f) return 0x7fff;
  u32 bits = __float_as_uint(f);
  return (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
#endif
}
template <class To, class From> D To bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From), "a bitcast keeps the size");
  union { From from; To to; } u;
  u.from = x;
  return u.to;
}

// Elements that lie one behind the other.
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack { T v[N]; };
template <class T> D bool is_aligned(const T* p, int count) {
  return (u64)p % (sizeof(T) * count < 16 ? sizeof(T) * count : 16) == 0;
}
template <int N, class T> D Pack<T, N> load_pack(const T* p, bool aligned, int count) {
  if (aligned && count == N) return *(const Pack<T, N>*)p;
  Pack<T, N> pack = {};
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < count) pack.v[i] = p[i];
  return pack;
}
template <int N, class T> D void store_pack(T* p, Pack<T, N> pack, bool aligned, int count) {
  if (aligned && count == N) {
    *(Pack<T, N>*)p = pack;
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (i < count) p[i] = pack.v[i];
  }
}
)";

constexpr std::string_view kRandom = R"(
// Philox 4x32-10.
D i32 random_word(i64 key, i64 offset, i64 subsequence, i64 word) {
  u32 k0 = (u32)key, k1 = (u32)((u64)key >> 32);
  u32 c0 = (u32)offset, c1 = (u32)((u64)offset >> 32);
  u32 c2 = (u32)subsequence, c3 = (u32)((u64)subsequence >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u64 p = 0xd2511f53ull * c0, q = 0xcd9e8d57ull * c2;
    c0 = (u32)(q >> 32) ^ c1 ^ k0;
    c1 = (u32)q;
    c2 = (u32)(p >> 32) ^ c3 ^ k1;
    c3 = (u32)p;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return (i32)(word & 2 ? word & 1 ? c3 : c2 : word & 1 ? c1 : c0);
}
)";

constexpr std::string_view kArithmetic = R"(
template <class T> D T minimum(T a, T b) { return a != a ? a : b != b ? b : b < a ? b : a; }
template <class T> D T maximum(T a, T b) { return a != a ? a : b != b ? b : a < b ? b : a; }
D f32 sigmoid(f32 x) { return 1.0f / (1.0f + expf(-x)); }
D f64 sigmoid(f64 x) { return 1.0 / (1.0 + exp(-x)); }
D f32 mod_of(f32 a, f32 b) { f32 r = fmodf(a, b); return r != 0 && (b < 0) != (r < 0) ? r + b : r; }
D f64 mod_of(f64 a, f64 b) { f64 r = fmod(a, b); return r != 0 && (b < 0) != (r < 0) ? r + b : r; }
// As c10::div_floor_floating: exact where a / b would round up.
template <class T> D T floordiv_float(T a, T b, T r) {
  if (b == 0) return a / b;
  T q = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) q -= 1;
  if (q == 0) return a / b < 0 ? -(T)0 : (T)0;
  T whole = floor(q);
  return q - whole > (T)0.5 ? whole + 1 : whole;
}
D f32 floordiv_of(f32 a, f32 b) { return floordiv_float(a, b, fmodf(a, b)); }
D f64 floordiv_of(f64 a, f64 b) { return floordiv_float(a, b, fmod(a, b)); }

template <class T> D T truncdiv_int(T a, T b) { return b == (T)-1 ? (T)(0 - (u64)a) : (T)(a / b); }
template <class T> D T fmod_int(T a, T b) { return b == (T)-1 ? (T)0 : (T)(a % b); }
template <class T> D T floordiv_int(T a, T b) {
  T q = truncdiv_int(a, b), r = fmod_int(a, b);
  return r != 0 && (r < 0) != (b < 0) ? (T)(q - 1) : q;
}
template <class T> D T mod_int(T a, T b) {
  T r = fmod_int(a, b);
  return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;
}
template <class T> D T power_int(T a, T b) {
  if (b < 0) return a == 1 ? (T)1 : a == (T)-1 ? (T)(b % 2 == 0 ? 1 : -1) : (T)0;
  u64 result = 1, base = (u64)a;
  for (u64 e = (u64)b; e; e >>= 1, base *= base)
    if (e & 1) result *= base;
  return (T)result;
}
template <class T> D bool is_wide(T b) { return b < 0 || b >= (T)(8 * sizeof(T)); }
template <class T> D T shl_int(T a, T b) { return is_wide(b) ? (T)0 : (T)((u64)a << b); }
template <class T> D T shr_int(T a, T b) { return is_wide(b) ? (T)(a < 0 ? -1 : 0) : (T)(a >> b); }
)";

// Partial results: `add` takes an element, `merge` the result of elements behind one's own.
constexpr std::string_view kAccumulators = R"(
template <class T> D T least();
template <> D f32 least<f32>() { return -__int_as_float(0x7f800000); }
template <> D f64 least<f64>() { return -__longlong_as_double(0x7ff0000000000000); }
template <> D i32 least<i32>() { return -2147483647 - 1; }
template <> D i64 least<i64>() { return -9223372036854775807ll - 1; }
template <class T> D T most();
template <> D f32 most<f32>() { return __int_as_float(0x7f800000); }
template <> D f64 most<f64>() { return __longlong_as_double(0x7ff0000000000000); }
template <> D i32 most<i32>() { return 2147483647; }
template <> D i64 most<i64>() { return 9223372036854775807ll; }

template <class T> struct Sum {
  T value;
  static D Sum none() { return {0}; }
  D void add(T x, i64) { value += x; }
  D void merge(Sum b) { value += b.value; }
};
template <class T> struct Prod {
  T value;
  static D Prod none() { return {1}; }
  D void add(T x, i64) { value *= x; }
  D void merge(Prod b) { value *= b.value; }
};
template <class T> struct Max {
  T value;
  static D Max none() { return {least<T>()}; }
  D void add(T x, i64) { value = maximum(value, x); }
  D void merge(Max b) { value = maximum(value, b.value); }
};
template <class T> struct Min {
  T value;
  static D Min none() { return {most<T>()}; }
  D void add(T x, i64) { value = minimum(value, x); }
  D void merge(Min b) { value = minimum(value, b.value); }
};
template <class T> struct Any {
  T value;
  static D Any none() { return {0}; }
  D void add(T x, i64) { value |= x; }
  D void merge(Any b) { value |= b.value; }
};
template <class T> struct All {
  T value;
  static D All none() { return {1}; }
  D void add(T x, i64) { value &= x; }
  D void merge(All b) { value &= b.value; }
};
template <class T, bool up> struct Arg {
  T value;
  i64 index;
  D void add(T x, i64 at) {
    const bool better = x != x ? value == value : up ? x > value : x < value;
    const bool equal = x == value || (x != x && value != value);
    if (better || (equal && at < index)) value = x, index = at;
  }
};
template <class T> struct ArgMax : Arg<T, true> {
  static D ArgMax none() { ArgMax a; a.value = least<T>(); a.index = most<i64>(); return a; }
  D void merge(ArgMax b) { this->add(b.value, b.index); }
};
template <class T> struct ArgMin : Arg<T, false> {
  static D ArgMin none() { ArgMin a; a.value = most<T>(); a.index = most<i64>(); return a; }
  D void merge(ArgMin b) { this->add(b.value, b.index); }
};
// Chan, Golub, LeVeque (1979): mean and squared deviations of two parts together.
template <class T> struct Welford {
  T mean, m2, count;
  static D Welford none() { return {0, 0, 0}; }
  D void add(T x, i64) {
    count += 1;
    const T delta = x - mean;
    mean += delta / count;
    m2 += delta * (x - mean);
  }
  D void merge(Welford b) {
    const T n = count + b.count;
    if (n == 0) return;
    const T share = b.count / n, delta = b.mean - mean;
    mean += delta * share;
    m2 += b.m2 + delta * delta * count * share;
    count = n;
  }
};
)";

constexpr std::string_view kThreads = R"(
template <class A> D A from_lane(A a, int offset) {
  static_assert(sizeof(A) % 4 == 0, "whole words");
  union Words { A a; u32 w[sizeof(A) / 4]; D Words() {} } mine, other;
  mine.a = a;
#pragma unroll
  for (int i = 0; i < (int)(sizeof(A) / 4); ++i)
    other.w[i] = __shfl_xor_sync(0xffffffffu, mine.w[i], offset);
  return other.a;
}
// Of `count` neighbouring threads of a warp, for all of them; parts are merged in their order.
template <int count, class A> D A over_lanes(A a) {
#pragma unroll
  for (int offset = 1; offset < count; offset *= 2) {
    A other = from_lane(a, offset);
    if (threadIdx.x & offset) {
      other.merge(a);
      a = other;
    } else {
      a.merge(other);
    }
  }
  return a;
}
// Of a block of `warps` warps.
template <int warps, class A> D A over_block(A a, A* shared) {
  a = over_lanes<32>(a);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = a;
  __syncthreads();
  return over_lanes<warps>(shared[threadIdx.x % warps]);
}
// Of the threads with the same threadIdx.x.
template <int count, class A> D A over_columns(A a, A* shared) {
  __syncthreads();
  A* mine = shared + threadIdx.y * 32 + threadIdx.x;
  *mine = a;
#pragma unroll
  for (int half = count / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) {
      a.merge(mine[half * 32]);
      *mine = a;
    }
  }
  __syncthreads();
  return shared[threadIdx.x];
}
)";

}  // namespace

std::string_view prelude() {
  static const std::string text = std::string(kBegin)
                                      .append(kTypes)
                                      .append(kRandom)
                                      .append(kArithmetic)
                                      .append(kAccumulators)
                                      .append(kThreads)
                                      .append(kEnd);
  return text;
}

}  // namespace braze::codegen::cuda
