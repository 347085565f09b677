#include "codegen/cpp/halves.h"

namespace braze::codegen::cpp {

std::string_view f32_of_bf16_text() {
  return R"(
template <class F, class U, class H> INLINE F f32_of_bf16(H h) { return bits<F>(convert<U>(h) << 16); }
INLINE f32 f32_of_bf16(u16 h) { return bits<f32>((u32)h << 16); }
)";
}

std::string_view bf16_of_f32_text() {
  return R"(
// Half to even; NaN stays NaN.
template <class H, class U, class F> INLINE H bf16_of_f32(F x) {
  const U u = bits<U>(x);
  const U rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
  return convert<H>(x != x ? U{} + 0x7fc0u : rounded);
}
INLINE u16 bf16_of_f32(f32 x) {
  const u32 u = bits<u32>(x);
  return x != x ? 0x7fc0 : (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
}
)";
}

std::string_view f16_moves_text() {
  return R"(
// The conversions of the instruction set, where it has them, by the number of lanes. They are exact,
// or round half to even.
template <int lanes> struct F16Move { static constexpr bool exists = false; };
#if defined(__F16C__) && !defined(__clang__)
#define HAS_F16_MOVES
typedef short F16Bits8 __attribute__((vector_size(16)));
typedef long long F16Words __attribute__((vector_size(16)));
typedef f32 F16Wide4 __attribute__((vector_size(16)));
typedef f32 F16Wide8 __attribute__((vector_size(32)));
template <> struct F16Move<4> {
  static constexpr bool exists = true;
  template <class H> INLINE F16Wide4 wide(H h) {
    return __builtin_ia32_vcvtph2ps((F16Bits8)F16Words{bits<i64>(h), 0});
  }
  INLINE i64 narrow(F16Wide4 x) { return ((F16Words)__builtin_ia32_vcvtps2ph(x, 0))[0]; }
};
template <> struct F16Move<8> {
  static constexpr bool exists = true;
  template <class H> INLINE F16Wide8 wide(H h) { return __builtin_ia32_vcvtph2ps256((F16Bits8)h); }
  INLINE F16Bits8 narrow(F16Wide8 x) { return __builtin_ia32_vcvtps2ph256(x, 0); }
};
#ifdef __AVX512F__
typedef short F16Bits16 __attribute__((vector_size(32)));
typedef f32 F16Wide16 __attribute__((vector_size(64)));
template <> struct F16Move<16> {
  static constexpr bool exists = true;
  template <class H> INLINE F16Wide16 wide(H h) {
    return __builtin_ia32_vcvtph2ps512_mask((F16Bits16)h, F16Wide16{}, -1, 4);
  }
  INLINE F16Bits16 narrow(F16Wide16 x) {
    return __builtin_ia32_vcvtps2ph512_mask(x, 0, F16Bits16{}, -1);
  }
};
#endif
#endif
)";
}

std::string_view f32_of_f16_text() {
  return R"(
// Without the instruction: shifts the fields in place and lets a float multiplication by 2^112
// rebias (and normalise) them.
template <class F, class U, class H> INLINE F f32_of_f16(H h) {
  typedef F16Move<sizeof(H) / sizeof(u16)> Move;
  if constexpr (Move::exists) {
    return Move::wide(h);
  } else {
    const U u = convert<U>(h);
    const U magnitude = (u & 0x7fffu) << 13;
    const F scaled = bits<F>(magnitude) * 0x1p112f;
    const U special = bits<U>(scaled) | 0x7f800000u;
    return bits<F>((scaled >= 65536.0f ? special : bits<U>(scaled)) | (u & 0x8000u) << 16);
  }
}
INLINE f32 f32_of_f16(u16 h) {
#ifdef HAS_F16_MOVES
  return __builtin_ia32_vcvtph2ps(F16Bits8{(short)h})[0];
#else
  const u32 u = h;
  const f32 scaled = bits<f32>((u & 0x7fffu) << 13) * 0x1p112f;
  const u32 special = scaled >= 65536.0f ? 0x7f800000u : 0;
  return bits<f32>((bits<u32>(scaled) | special) | (u & 0x8000u) << 16);
#endif
}
)";
}

std::string_view f16_of_f32_text() {
  return R"(
// Without the instruction, subnormal results come out of a float addition that aligns the mantissa.
template <class H, class U, class F> INLINE H f16_of_f32(F x) {
  typedef F16Move<sizeof(H) / sizeof(u16)> Move;
  const U u = bits<U>(x);
  if constexpr (Move::exists) {
    return bits<H>(Move::narrow(x != x ? bits<F>((u & 0x80000000u) | 0x7fc00000u) : x));
  } else {
    const U magnitude = u & 0x7fffffffu;
    const U small = bits<U>(bits<F>(magnitude) + 0.5f) - 0x3f000000u;
    const U normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    U h = magnitude < 0x38800000u ? small : normal;
    h = magnitude >= 0x47800000u ? U{} + 0x7c00u : h;
    h = magnitude > 0x7f800000u ? U{} + 0x7e00u : h;
    return convert<H>(h | (u >> 16 & 0x8000u));
  }
}
INLINE u16 f16_of_f32(f32 x) {
  const u32 u = bits<u32>(x);
  const u32 sign = u >> 16 & 0x8000u;
  if (x != x) return 0x7e00u | sign;
#ifdef HAS_F16_MOVES
  return __builtin_ia32_vcvtps2ph(F16Wide4{x}, 0)[0];
#else
  const u32 magnitude = u & 0x7fffffffu;
  u32 h;
  if (magnitude >= 0x47800000u) h = 0x7c00u;
  else if (magnitude < 0x38800000u) h = bits<u32>(bits<f32>(magnitude) + 0.5f) - 0x3f000000u;
  else h = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  return h | sign;
#endif
}
)";
}

}  // namespace braze::codegen::cpp
