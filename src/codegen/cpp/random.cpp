#include "codegen/cpp/random.h"

namespace braze::codegen::cpp {

std::string_view random_word_text() {
  return R"(
INLINE i32 random_word(i64 key, i64 offset, i64 subsequence, i64 word) {
  u32 k0 = (u32)key, k1 = (u32)((u64)key >> 32);
  u32 c[4] = {(u32)offset, (u32)((u64)offset >> 32), (u32)subsequence, (u32)((u64)subsequence >> 32)};
  for (int round = 0; round < 10; ++round, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
    const u64 p = 0xd2511f53ull * c[0], q = 0xcd9e8d57ull * c[2];
    c[0] = (u32)(q >> 32) ^ c[1] ^ k0;
    c[1] = (u32)q;
    c[2] = (u32)(p >> 32) ^ c[3] ^ k1;
    c[3] = (u32)p;
  }
  return (i32)(word & 2 ? word & 1 ? c[3] : c[2] : word & 1 ? c[1] : c[0]);
}
)";
}

std::string_view random_lanes_text() {
  return R"(
template <class V, class W> INLINE V random_lanes(W key, W offset, W subsequence, W word) {
  V v;
  for (int l = 0; l < int(sizeof(V) / sizeof(v[0])); ++l)
    v[l] = random_word(key[l], offset[l], subsequence[l], word[l]);
  return v;
}
)";
}

// Words are computed in lanes of 64 bits, whose high halves may hold anything: the products take
// only the low halves. GCC makes three products of a product of two vectors of 64 bits.
std::string_view random_run_text() {
  return R"(
#if defined(__AVX512F__)
#define RANDOM_BYTES 64
#elif defined(__AVX2__)
#define RANDOM_BYTES 32
#else
#define RANDOM_BYTES 16
#endif
typedef u64 RandomWide __attribute__((vector_size(RANDOM_BYTES)));
INLINE RandomWide random_product(RandomWide a, u64 b) {
#if defined(__clang__) || !defined(__SSE2__)
  return (a & 0xffffffffull) * (RandomWide{} + b);
#else
  typedef int Half __attribute__((vector_size(RANDOM_BYTES)));
  const Half x = (Half)a, y = (Half)(RandomWide{} + b);
#if defined(__AVX512F__)
  typedef long long Result __attribute__((vector_size(RANDOM_BYTES)));
  return (RandomWide)__builtin_ia32_pmuludq512_mask(x, y, Result{}, -1);
#elif defined(__AVX2__)
  return (RandomWide)__builtin_ia32_pmuludq256(x, y);
#else
  return (RandomWide)__builtin_ia32_pmuludq128(x, y);
#endif
#endif
}
struct RandomRun {
  i64 block[2] = {-__LONG_LONG_MAX__ - 1, -__LONG_LONG_MAX__ - 1};
  // Of an even block, of an odd one, and the first of the even one again: a vector may begin in the
  // one and end in the other.
  u32 word[144] __attribute__((aligned(64)));
};
static __attribute__((noinline)) void random_block(RandomRun& run, i64 key, i64 offset, i64 block) {
  constexpr int lanes = RANDOM_BYTES / 8;
  u32* const words = run.word + (block & 1) * 64;
  RandomWide twice;
  for (int l = 0; l < lanes; ++l) twice[l] = 2 * l;
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 2 * lanes) {
    RandomWide c[2][4];
    for (int odd = 0; odd < 2; ++odd) {
      c[odd][0] = RandomWide{} + (u64)offset;
      c[odd][1] = RandomWide{} + ((u64)offset >> 32);
      c[odd][2] = twice + ((u64)block * 16 + i + odd);
      c[odd][3] = c[odd][2] >> 32;
    }
    u32 k0 = (u32)key, k1 = (u32)((u64)key >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u)
#pragma GCC unroll 2
      for (int odd = 0; odd < 2; ++odd) {
        RandomWide* const w = c[odd];
        const RandomWide p = random_product(w[0], 0xd2511f53u), q = random_product(w[2], 0xcd9e8d57u);
        w[0] = q >> 32 ^ w[1] ^ (u64)k0;
        w[1] = q;
        w[2] = p >> 32 ^ w[3] ^ (u64)k1;
        w[3] = p;
      }
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w) {
      const RandomWide both = (c[0][w] & 0xffffffffull) | c[1][w] << 32;
      __builtin_memcpy(words + 16 * w + i, &both, sizeof both);
    }
  }
  if ((block & 1) == 0) __builtin_memcpy(run.word + 128, run.word, 64);
  run.block[block & 1] = block;
}
template <class V> INLINE V random_run(RandomRun& run, i64 key, i64 offset, i64 element) {
  constexpr int lanes = sizeof(V) / sizeof(i32);
  static_assert(lanes <= 16, "the first words of an even block are there twice");
  const i64 first = element >> 6, last = (element + lanes - 1) >> 6;
  if (run.block[first & 1] != first) random_block(run, key, offset, first);
  if (run.block[last & 1] != last) random_block(run, key, offset, last);
  V v;
  __builtin_memcpy(&v, run.word + (element & 127), sizeof v);
  return v;
}
)";
}

}  // namespace braze::codegen::cpp
