#include "codegen/cpp/helpers.h"

#include "codegen/cpp/halves.h"
#include "codegen/cpp/random.h"

namespace braze::codegen::cpp {

const std::vector<Helper>& helper_table() {
  static const std::vector<Helper> table = {
      {"load", {}, R"(
template <class V, class T> INLINE V load(const T* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
)"},
      {"store", {}, R"(
template <class T, class V> INLINE void store(T* p, V v) { __builtin_memcpy(p, &v, sizeof v); }
)"},
      {"part_moves", {}, R"(
// Masked moves by size of element and vector, where the instruction set has them.
#if defined(__AVX512VL__) && defined(__AVX512BW__) && !defined(__clang__)
#define PART_MOVES(bytes, width, element, letter, bits)                                        \
  template <> struct PartMove<bytes, width> {                                                  \
    typedef element Wide __attribute__((vector_size(bytes)));                                  \
    static constexpr bool exists = true;                                                       \
    INLINE Wide load(const void* p, u64 lanes) {                                               \
      return (Wide)__builtin_ia32_loaddqu##letter##bits##_mask((const element*)p, Wide{}, lanes); \
    }                                                                                          \
    INLINE void store(void* p, Wide v, u64 lanes) {                                            \
      __builtin_ia32_storedqu##letter##bits##_mask((element*)p, v, lanes);                     \
    }                                                                                          \
  };
template <int bytes, int width> struct PartMove { static constexpr bool exists = false; };
PART_MOVES(64, 8, long long, di, 512)
PART_MOVES(32, 8, long long, di, 256)
PART_MOVES(16, 8, long long, di, 128)
PART_MOVES(64, 4, int, si, 512)
PART_MOVES(32, 4, int, si, 256)
PART_MOVES(16, 4, int, si, 128)
PART_MOVES(64, 2, short, hi, 512)
PART_MOVES(32, 2, short, hi, 256)
PART_MOVES(16, 2, short, hi, 128)
PART_MOVES(64, 1, char, qi, 512)
PART_MOVES(32, 1, char, qi, 256)
PART_MOVES(16, 1, char, qi, 128)
#else
template <int bytes, int width> struct PartMove { static constexpr bool exists = false; };
#endif
INLINE u64 first_bits(i64 n) { return (1ull << n) - 1; }
)"},
      {"mask_bits", {"part_moves"}, R"(
// A bit for each lane of a mask, where PartMove exists.
template <int bytes, int width> struct MaskBits { static constexpr bool exists = false; };
#if defined(__AVX512VL__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && !defined(__clang__)
#define MASK_BITS(bytes, width, element, letter, bits)                                     \
  template <> struct MaskBits<bytes, width> {                                              \
    typedef element Wide __attribute__((vector_size(bytes)));                              \
    static constexpr bool exists = true;                                                   \
    INLINE u64 of(Wide mask) { return __builtin_ia32_cvt##letter##2mask##bits(mask); }     \
  };
MASK_BITS(64, 8, long long, q, 512)
MASK_BITS(32, 8, long long, q, 256)
MASK_BITS(16, 8, long long, q, 128)
MASK_BITS(64, 4, int, d, 512)
MASK_BITS(32, 4, int, d, 256)
MASK_BITS(16, 4, int, d, 128)
MASK_BITS(64, 2, short, w, 512)
MASK_BITS(32, 2, short, w, 256)
MASK_BITS(16, 2, short, w, 128)
MASK_BITS(64, 1, char, b, 512)
MASK_BITS(32, 1, char, b, 256)
MASK_BITS(16, 1, char, b, 128)
#endif
)"},
      {"load_part", {"part_moves"}, R"(
// The first n elements; the other lanes are 0. (GCC makes a copy through memory of a memcpy into a
// part of a vector, and waits for it.)
template <class V, class T> INLINE V load_part(const T* p, i64 n) {
  typedef PartMove<sizeof(V), sizeof(T)> Move;
  if constexpr (Move::exists) {
    return (V)Move::load(p, first_bits(n));
  } else {
    V v{};
    __builtin_memcpy(&v, p, n * sizeof(T));
    return v;
  }
}
)"},
      {"store_part", {"part_moves"}, R"(
template <class T, class V> INLINE void store_part(T* p, V v, i64 n) {
  typedef PartMove<sizeof(V), sizeof(T)> Move;
  if constexpr (Move::exists)
    Move::store(p, (typename Move::Wide)v, first_bits(n));
  else
    __builtin_memcpy(p, &v, n * sizeof(T));
}
)"},
      {"load_first", {"part_moves"}, R"(
// As load_part, for an n that is not known when this is compiled.
template <class V, class T> INLINE V load_first(const T* p, i64 n) {
  typedef PartMove<sizeof(V), sizeof(T)> Move;
  if constexpr (Move::exists) {
    return (V)Move::load(p, first_bits(n));
  } else {
    V v{};
    for (i64 l = 0; l < n; ++l) v[l] = p[l];
    return v;
  }
}
)"},
      {"store_first", {"part_moves"}, R"(
template <class T, class V> INLINE void store_first(T* p, V v, i64 n) {
  typedef PartMove<sizeof(V), sizeof(T)> Move;
  if constexpr (Move::exists) {
    Move::store(p, (typename Move::Wide)v, first_bits(n));
  } else {
    for (i64 l = 0; l < n; ++l) p[l] = v[l];
  }
}
)"},
      {"load_strided", {}, R"(
template <class V, class T> INLINE V load_strided(const T* p, i64 stride, int n) {
  V v{};
#pragma GCC unroll 64
  for (int l = 0; l < n; ++l) v[l] = p[l * stride];
  return v;
}
)"},
      {"load_first_strided", {}, R"(
// For an n that is not known when this is compiled: unrolled once, not at each place.
template <class V, class T>
static __attribute__((noinline)) V load_first_strided(const T* p, i64 stride, i64 n) {
  V v{};
#pragma GCC unroll 64
  for (i64 l = 0; l < n; ++l) v[l] = p[l * stride];
  return v;
}
)"},
      {"load_tile", {"load"}, R"(
// N rows of N elements, transposed: tile[i][j] is element i of row j. Each of log2(N) rounds
// interleaves row i with row i + N/2.
template <int N, class V, class T> INLINE void load_tile(V* tile, const T* p, i64 stride) {
  typedef decltype(V{} < V{}) M;
  M low, high;
#pragma GCC unroll 64
  for (int i = 0; i < N; ++i) {
    low[i] = i / 2 + i % 2 * N;
    high[i] = low[i] + N / 2;
    tile[i] = load<V>(p + i * stride);
  }
#pragma GCC unroll 8
  for (int round = 1; round < N; round *= 2) {
    V next[N];
#pragma GCC unroll 64
    for (int i = 0; i < N / 2; ++i) {
#ifdef __clang__
      for (int l = 0; l < N; ++l) {
        next[2 * i][l] = l % 2 ? tile[i + N / 2][l / 2] : tile[i][l / 2];
        next[2 * i + 1][l] = l % 2 ? tile[i + N / 2][(l + N) / 2] : tile[i][(l + N) / 2];
      }
#else
      next[2 * i] = __builtin_shuffle(tile[i], tile[i + N / 2], low);
      next[2 * i + 1] = __builtin_shuffle(tile[i], tile[i + N / 2], high);
#endif
    }
#pragma GCC unroll 64
    for (int i = 0; i < N; ++i) tile[i] = next[i];
  }
}
)"},
      {"store_strided", {}, R"(
template <class T, class V> INLINE void store_strided(T* p, V v, i64 stride, int n) {
#pragma GCC unroll 64
  for (int l = 0; l < n; ++l) p[l * stride] = v[l];
}
)"},
      {"store_first_strided", {}, R"(
template <class T, class V>
static __attribute__((noinline)) void store_first_strided(T* p, V v, i64 stride, i64 n) {
#pragma GCC unroll 64
  for (i64 l = 0; l < n; ++l) p[l * stride] = v[l];
}
)"},
      {"load_tile_part", {"load_tile"}, R"(
// The same of `rows` rows of `width` elements; the rest of the tile is 0.
template <int N, class V, class T>
INLINE void load_tile_part(V* tile, const T* p, i64 stride, i64 rows, i64 width) {
  if (rows == N && width == N) return load_tile<N>(tile, p, stride);
  for (int i = 0; i < N; ++i) tile[i] = V{};
  for (i64 i = 0; i < rows; ++i)
    for (i64 j = 0; j < width; ++j) tile[j][i] = p[i * stride + j];
}
)"},
      {"load_masked", {"any", "mask_bits"}, R"(
// Lanes where the mask is set; the others are 0 and not touched in memory. Mostly all are set.
template <class V, class T, class M> INLINE V load_masked(const T* p, M mask) {
  typedef PartMove<sizeof(V), sizeof(T)> Move;
  typedef MaskBits<sizeof(M), sizeof(mask[0])> Bits;
  if constexpr (Move::exists && Bits::exists) {
    return (V)Move::load(p, Bits::of((typename Bits::Wide)mask));
  } else {
    V v{};
    if (!any(M(~mask)))
      __builtin_memcpy(&v, p, sizeof v);
    else if (any(mask))
      for (int l = 0; l < int(sizeof(V) / sizeof(T)); ++l)
        if (mask[l]) v[l] = p[l];
    return v;
  }
}
)"},
      {"load_masked_strided", {}, R"(
template <class V, class T, class M> INLINE V load_masked_strided(const T* p, M mask, i64 stride) {
  V v{};
  for (int l = 0; l < int(sizeof(V) / sizeof(T)); ++l)
    if (mask[l]) v[l] = p[l * stride];
  return v;
}
)"},
      {"splat", {}, R"(
template <class V, class T> INLINE V splat(T s) { return s - V{}; }
)"},
      {"convert", {}, R"(
template <class V, class W> INLINE V convert(W v) { return __builtin_convertvector(v, V); }
)"},
      {"bits", {}, R"(
template <class To, class From> INLINE To bits(From v) {
  To r;
  __builtin_memcpy(&r, &v, sizeof r);
  return r;
}
)"},
      {"opaque", {}, R"(
// The same mask, but the compiler is not told how it came about: GCC 12 fails on some uses of a
// comparison with constants.
template <class M> INLINE M opaque(M mask) {
#if defined(__x86_64__) && !defined(__clang__)
  if constexpr (sizeof(M) == 16) __asm__("" : "+x"(mask));
#ifdef __AVX2__
  if constexpr (sizeof(M) == 32) __asm__("" : "+x"(mask));
#endif
#ifdef __AVX512F__
  if constexpr (sizeof(M) == 64) __asm__("" : "+v"(mask));
#endif
#endif
  return mask;
}
)"},
      {"first_lanes", {"opaque"}, R"(
// A mask of the first n lanes: the sign of lane - n.
template <class M> INLINE M first_lanes(int n) {
  M lane{};
#pragma GCC unroll 64
  for (int l = 0; l < int(sizeof(M) / sizeof(lane[0])); ++l) lane[l] = l;
  const __typeof__(lane[0]) count = n;
  return opaque(M((lane - count) >> int(8 * sizeof(lane[0]) - 1)));
}
)"},
      {"any", {}, R"(
template <class M> INLINE bool any(M mask) {
  bool r = false;
  for (int l = 0; l < int(sizeof(M) / sizeof(mask[0])); ++l) r |= mask[l] != 0;
  return r;
}
#if defined(__AVX__) && !defined(__clang__)
typedef long long mask256 __attribute__((vector_size(32)));
INLINE bool any(i32x8 m) { return !__builtin_ia32_ptestz256((mask256)m, (mask256)m); }
#endif
#if defined(__AVX512F__) && !defined(__clang__)
INLINE bool any(i32x16 m) { return __builtin_ia32_ptestmd512(m, m, -1) != 0; }
#endif
)"},
      {"half", {}, R"(
template <class H, class V> INLINE H half(V v, int upper) {
  H h;
  __builtin_memcpy(&h, (const char*)&v + upper * sizeof h, sizeof h);
  return h;
}
// Through registers, where the compiler can: before a fold it is what the next row waits for.
#if defined(__clang__) || __GNUC__ >= 12
#define HALVES(n, ...)                                                                 \
  template <class H, class V> INLINE H upper_##n(V v) {                                \
    return __builtin_shufflevector(v, v, __VA_ARGS__);                                 \
  }
HALVES(2, 2, 3)
HALVES(4, 4, 5, 6, 7)
HALVES(8, 8, 9, 10, 11, 12, 13, 14, 15)
#endif
template <class H, class V> INLINE H upper_half(V v) {
  constexpr int n = sizeof(H) / sizeof(v[0]);
#if defined(__clang__) || __GNUC__ >= 12
  if constexpr (n == 2) return upper_2<H>(v);
  if constexpr (n == 4) return upper_4<H>(v);
  if constexpr (n == 8) return upper_8<H>(v);
#endif
  return half<H>(v, 1);
}
)"},
      {"maximum", {}, R"(
// NaN if either is.
template <class V> INLINE V maximum(V a, V b) {
  const V m = a > b ? a : b;
  return a != a ? a : m;
}
)"},
      {"minimum", {}, R"(
template <class V> INLINE V minimum(V a, V b) {
  const V m = a < b ? a : b;
  return a != a ? a : m;
}
)"},
      {"at_least", {}, R"(
// max(v, bound) for a bound that is not NaN.
template <class V, class T> INLINE V at_least(V v, T bound) { return bound > v ? bound - V{} : v; }
)"},
      {"at_most", {}, R"(
template <class V, class T> INLINE V at_most(V v, T bound) { return bound < v ? bound - V{} : v; }
)"},
      {"magnitude", {}, R"(
template <class V> INLINE V magnitude(V v) { return v < 0 ? 0 - v : v; }
)"},
      {"check_index", {}, R"(
INLINE i64 check_index(i64 index, i64 size, i64& failed) {
  if (__builtin_expect((u64)index < (u64)size, 1)) return index;
  failed = 1;
  return 0;
}
)"},
      {"floordiv", {}, R"(
template <class T> INLINE T floordiv(T a, T b) {
  if (b == T(-1)) return T(0 - (u64)a);
  if (b == 0) return 0;  // only in lanes that are not used
  const T q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
)"},
      {"truncdiv", {}, R"(
template <class T> INLINE T truncdiv(T a, T b) {
  if (b == T(-1)) return T(0 - (u64)a);
  return b == 0 ? 0 : a / b;
}
)"},
      {"mod", {}, R"(
template <class T> INLINE T mod(T a, T b) {
  if (b == 0 || b == T(-1)) return T(b == 0 || b < 0 ? 0 : a % b);
  const T r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
)"},
      {"remainder_of", {}, R"(
template <class T> INLINE T remainder_of(T a, T b) {
  if (b == 0 || (b == T(-1) && b < 0)) return 0;
  return a % b;
}
)"},
      {"power", {}, R"(
template <class T> INLINE T power(T base, T exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == T(-1) ? (exponent % 2 ? -1 : 1) : 0;
  u64 result = 1, square = (u64)base;
  for (; exponent > 0; exponent >>= 1, square *= square)
    if (exponent & 1) result *= square;
  return T(result);
}
)"},
      {"shl", {}, R"(
template <class T> INLINE T shl(T a, T b) {
  return b < 0 || b >= T(8 * sizeof(T)) ? T(0) : T((u64)a << b);
}
)"},
      {"shr", {}, R"(
template <class T> INLINE T shr(T a, T b) {
  return b < 0 || b >= T(8 * sizeof(T)) ? T(a < 0 ? -1 : 0) : T(a >> b);
}
)"},
      {"fmod_float", {}, R"(
extern "C" f32 fmodf(f32, f32) noexcept;
extern "C" f64 fmod(f64, f64) noexcept;
INLINE f32 fmod_float(f32 a, f32 b) { return fmodf(a, b); }
INLINE f64 fmod_float(f64 a, f64 b) { return fmod(a, b); }
)"},
      {"mod_float", {"fmod_float"}, R"(
template <class T> INLINE T mod_float(T a, T b) {
  const T r = fmod_float(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
)"},
      {"floordiv_float", {"fmod_float"}, R"(
// As c10::div_floor_floating: right even where a / b rounds up to an integer.
template <class T> INLINE T floordiv_float(T a, T b) {
  if (b == 0) return a / b;
  const T r = fmod_float(a, b);
  T q = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) q -= 1;
  if (q == 0) return T(__builtin_copysign(0.0, a / b));
  const T floor = T(__builtin_floor(q));
  return q - floor > T(0.5) ? floor + 1 : floor;
}
)"},
      {"f32_of_bf16", {"bits", "convert"}, f32_of_bf16_text()},
      {"bf16_of_f32", {"bits", "convert"}, bf16_of_f32_text()},
      {"f16_moves", {"bits"}, f16_moves_text()},
      {"f32_of_f16", {"f16_moves", "convert"}, f32_of_f16_text()},
      {"f16_of_f32", {"f16_moves", "convert"}, f16_of_f32_text()},
      {"in_double", {"half", "convert"}, R"(
// A function of f64 vectors D on an f32 vector V of twice the lanes (two halves H).
template <class V, class H> INLINE V join(H low, H high) {
  V v;
  __builtin_memcpy(&v, &low, sizeof low);
  __builtin_memcpy((char*)&v + sizeof low, &high, sizeof high);
  return v;
}
template <class V, class H, class D, class F> INLINE V in_double(F f, V x) {
  return join<V>(convert<H>(f(convert<D>(half<H>(x, 0)))), convert<H>(f(convert<D>(half<H>(x, 1)))));
}
template <class V, class H, class D, class F> INLINE V in_double(F f, V x, V y) {
  return join<V>(convert<H>(f(convert<D>(half<H>(x, 0)), convert<D>(half<H>(y, 0)))),
                 convert<H>(f(convert<D>(half<H>(x, 1)), convert<D>(half<H>(y, 1)))));
}
)"},
      {"lanes", {}, R"(
// A function of scalars, lane by lane.
template <class V, class F> INLINE V lanes(F f, V a) {
  V r;
  for (int l = 0; l < int(sizeof(V) / sizeof(a[0])); ++l) r[l] = f(a[l]);
  return r;
}
template <class V, class F> INLINE V lanes(F f, V a, V b) {
  V r;
  for (int l = 0; l < int(sizeof(V) / sizeof(a[0])); ++l) r[l] = f(a[l], b[l]);
  return r;
}
)"},
      {"random_word", {}, random_word_text()},
      {"random_lanes", {"random_word"}, random_lanes_text()},
      {"random_run", {}, random_run_text()},
  };
  return table;
}

}  // namespace braze::codegen::cpp
