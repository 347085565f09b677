// Polynomials of our own fit: weighted least squares at Chebyshev nodes with Lawson's reweighting,
// which tends to the minimax polynomial in relative error (J.-M. Muller, Elementary Functions, 3rd
// ed., ch. 3). Argument reduction in two constants is Cody and Waite's (Software Manual for the
// Elementary Functions, 1980). Rare functions are computed in double, where textbook series and
// a plain reduction are exact enough for f32.
#include "codegen/cpp/vector_math.h"

#include <algorithm>

#include "base/error.h"

namespace braze::codegen::cpp {

namespace {

const std::vector<MathFunction>& table() {
  static const std::vector<MathFunction> functions = {
      {"exp", {"fma", "scale"}, R"(
// e^x = 2^n e^r, |r| <= ln(2)/2, e^r = 1 + r + r^2 q(r). Cody & Waite.
INLINE $F exp_$N($F x) {
  x = at_most(at_least(x, -104.0f), 89.0f);
  const $F shifted = fma_$N(x, $F{} + 1.44269504f, $F{} + 12582912.0f);  // 1.5 * 2^23
  const $F n = shifted - 12582912.0f;
  $F r = fma_$N(n, $F{} - 0.693145752f, x);
  r = fma_$N(n, $F{} - 1.42860677e-6f, r);
  $F q = fma_$N(r, $F{} + 0.00138145577f, $F{} + 0.00836873577f);
  q = fma_$N(q, r, $F{} + 0.0416683899f);
  q = fma_$N(q, r, $F{} + 0.166665205f);
  q = fma_$N(q, r, $F{} + 0.499999934f);
  return scale_$N(fma_$N(q, r * r, r) + 1.0f, n);
}
)"},
      {"exp2", {"fma", "scale"}, R"(
INLINE $F exp2_$N($F x) {
  x = at_most(at_least(x, -151.0f), 129.0f);
  const $F n = (x + 12582912.0f) - 12582912.0f;
  const $F r = x - n;
  $F q = fma_$N(r, $F{} + 0.000153533399f, $F{} + 0.00133989007f);
  q = fma_$N(q, r, $F{} + 0.00961843761f);
  q = fma_$N(q, r, $F{} + 0.0555033241f);
  q = fma_$N(q, r, $F{} + 0.240226479f);
  q = fma_$N(q, r, $F{} + 0.693147203f);
  return scale_$N(fma_$N(q, r, $F{} + 1.0f), n);
}
)"},
      {"sigmoid", {"exp"}, R"(
INLINE $F sigmoid_$N($F x) { return 1.0f / (1.0f + exp_$N(-x)); }
)"},
      {"rsqrt", {"sqrt"}, R"(
INLINE $F rsqrt_$N($F x) { return 1.0f / sqrt_$N(x); }
)"},
      {"tanh", {"exp", "fma"}, R"(
// Near 0 an odd polynomial, else 1 - 2 / (e^2|x| + 1). Cody & Waite, ch. 13.
INLINE $F tanh_$N($F x) {
  const $F s = x * x;
  $F q = fma_$N(s, $F{} - 0.00570497837f, $F{} + 0.0206390787f);
  q = fma_$N(q, s, $F{} - 0.0537397122f);
  q = fma_$N(q, s, $F{} + 0.133314422f);
  q = fma_$N(q, s, $F{} - 0.333332819f);
  const $F near = fma_$N(q * s, x, x);
  const $I sign = bits<$I>(x) & (-__INT_MAX__ - 1);
  const $F a = bits<$F>(bits<$I>(x) ^ sign);
  const $F far = 1.0f - 2.0f / (exp_$N(a + a) + 1.0f);
  return bits<$F>(bits<$I>($F(a < 0.625f ? near : far)) | sign);
}
)"},
      {"erf", {"exp", "fma"}, R"(
// Near 0 an odd polynomial, else 1 - e^p(|x|), p fitted to log(erfc). The split is W. J. Cody's
// (Rational Chebyshev approximations for the error function, 1969).
INLINE $F erf_$N($F x) {
  const $I sign = bits<$I>(x) & (-__INT_MAX__ - 1);
  const $F a = bits<$F>(bits<$I>(x) ^ sign);
#if ($L == 16 || $L == 8) && defined(__AVX2__) && !defined(__clang__)
  // Where registers can be looked up in: erf(a) / a by a polynomial for each sixteenth of [0, 4).
  static constexpr f32 kCoefficients[6][16] = {
      {1.12252963f, 1.07764506f, 0.997185409f, 0.896085799f, 0.789678454f, 0.689578235f,
       0.602119207f, 0.529061377f, 0.469339281f, 0.420722961f, 0.380874157f, 0.347809434f,
       0.319996834f, 0.296295762f, 0.275861979f, 0.258064508f},
      {-0.0931549221f, -0.259445846f, -0.373897403f, -0.424389482f, -0.419026256f,
       -0.377613425f, -0.32101351f, -0.264274955f, -0.215058103f, -0.175459579f, -0.144657627f,
       -0.120876245f, -0.102378264f, -0.0877875611f, -0.0760992467f, -0.0665971711f},
      {-0.365642309f, -0.288495272f, -0.16526486f, -0.0397309512f, 0.0541918091f, 0.104267411f,
       0.117074735f, 0.107401393f, 0.088863492f, 0.069871515f, 0.0539598949f, 0.0417536981f,
       0.0326962695f, 0.0259983577f, 0.020990666f, 0.0171860252f},
      {0.0553773083f, 0.142985374f, 0.175345153f, 0.151602194f, 0.096230723f, 0.0390334688f,
       -0.00137410325f, -0.0213117711f, -0.0262710396f, -0.0236383826f, -0.0186932068f,
       -0.0140004456f, -0.0103348158f, -0.00767578837f, -0.00578537676f, -0.00443425355f},
      {0.106054604f, 0.0626983047f, 0.00198058435f, -0.0444000363f, -0.0603374317f,
       -0.0504389368f, -0.0297868606f, -0.0112714591f, -0.000127388979f, 0.00437601609f,
       0.00504130637f, 0.00421292661f, 0.00313142408f, 0.00223550131f, 0.00158987404f,
       0.00114451104f},
      {-0.0194478985f, -0.0462264977f, -0.0464781001f, -0.0255734343f, -0.000692908361f,
       0.014380537f, 0.0169167016f, 0.0120618464f, 0.00592271192f, 0.0016810206f,
       -0.000305524474f, -0.000864291389f, -0.000815235544f, -0.000613173237f, -0.000427539839f,
       -0.000293256016f},
  };
  const $F within = at_most(a, 3.9999998f);
  const $I part = convert<$I>(within * 4.0f);
  const $F r = fma_$N(convert<$F>(part), $F{} - 0.25f, within) - 0.125f;
  $F ratio{};
#pragma GCC unroll 6
  for (int degree = 5; degree >= 0; --degree) {
    $F low, high;
    __builtin_memcpy(&low, kCoefficients[degree], sizeof low);
    __builtin_memcpy(&high, kCoefficients[degree] + 16 - $L, sizeof high);
    const $F c = $L == 16 ? __builtin_shuffle(low, part) : __builtin_shuffle(low, high, part);
    ratio = fma_$N(ratio, r, c);
  }
  // From 3.93 on 1 is the nearest number, and the polynomial may give the one above it.
  return a >= 3.93f ? bits<$F>(bits<$I>($F{} + 1.0f) | sign) : x * ratio;
#endif
  const $F s = x * x;
  $F q = fma_$N(s, $F{} - 0.000596379524f, $F{} + 0.00498791439f);
  q = fma_$N(q, s, $F{} - 0.0267630633f);
  q = fma_$N(q, s, $F{} + 0.112817194f);
  q = fma_$N(q, s, $F{} - 0.376124846f);
  q = fma_$N(q, s, $F{} + 0.128379148f);
  const $F near = fma_$N(q, x, x);
  const $F t = at_most(a, 4.0f);
  $F p = fma_$N(t, $F{} - 1.142348e-05f, $F{} + 0.000324727819f);
  p = fma_$N(p, t, $F{} - 0.00365028388f);
  p = fma_$N(p, t, $F{} + 0.0237786172f);
  p = fma_$N(p, t, $F{} - 0.106256103f);
  p = fma_$N(p, t, $F{} - 0.635139688f);
  p = fma_$N(p, t, $F{} - 0.128651355f);
  const $F far = 1.0f - exp_$N(fma_$N(p, t, -t));
  return a < 0.9277f ? near : bits<$F>(bits<$I>(far) | sign);
}
)"},
      {"log", {"fma"}, R"(
// log(2^e (1 + f)) = e ln(2) + f - f^2/2 + f^3 p(f), 1 + f in [sqrt(1/2), sqrt(2)).
INLINE $F log_$N($F x) {
  const $F tiny = x < 1.17549435e-38f ? $F{} + 8388608.0f : $F{} + 1.0f;
  const $I i = bits<$I>(x * tiny);
  const $I exponent = (i - 0x3f3504f3) >> 23;
  const $F f = bits<$F>(i - (exponent << 23)) - 1.0f;
  const $F e = convert<$F>(exponent) - (x < 1.17549435e-38f ? $F{} + 23.0f : $F{});
  $F p = fma_$N(f, $F{} + 0.0674455027f, $F{} - 0.116748091f);
  p = fma_$N(p, f, $F{} + 0.118886009f);
  p = fma_$N(p, f, $F{} - 0.124057557f);
  p = fma_$N(p, f, $F{} + 0.142195201f);
  p = fma_$N(p, f, $F{} - 0.166679856f);
  p = fma_$N(p, f, $F{} + 0.200021196f);
  p = fma_$N(p, f, $F{} - 0.250000098f);
  p = fma_$N(p, f, $F{} + 0.333333126f);
  const $F s = f * f;
  $F low = fma_$N(p * f, s, e * 1.42860677e-6f);
  low = fma_$N(s, $F{} - 0.5f, low);
  $F r = fma_$N(e, $F{} + 0.693145752f, f + low);
  r = x < __builtin_inff() ? r : x;  // inf and NaN stay
  r = x == 0.0f ? $F{} - __builtin_inff() : r;
  return x < 0.0f ? $F{} + __builtin_nanf("") : r;
}
)"},
      {"exp_core", {"fma"}, R"(
// e^x - 1 as (2^n - 1) + 2^n (e^r - 1), or e^x; the series of e^r to r^11.
INLINE $F exp_core_$N($F x, bool minus_one) {
  x = at_most(at_least(x, -150.0), 150.0);
  const $F shifted = x * 0x1.71547652b82fep0 + 0x1.8p52;
  const $F n = shifted - 0x1.8p52;
  $F r = fma_$N(n, $F{} - 0x1.62e42fee00000p-1, x);
  r = fma_$N(n, $F{} - 0x1.a39ef35793c76p-33, r);
  $F q = fma_$N(r, $F{} + 1.0 / 39916800, $F{} + 1.0 / 3628800);
  q = fma_$N(q, r, $F{} + 1.0 / 362880);
  q = fma_$N(q, r, $F{} + 1.0 / 40320);
  q = fma_$N(q, r, $F{} + 1.0 / 5040);
  q = fma_$N(q, r, $F{} + 1.0 / 720);
  q = fma_$N(q, r, $F{} + 1.0 / 120);
  q = fma_$N(q, r, $F{} + 1.0 / 24);
  q = fma_$N(q, r, $F{} + 1.0 / 6);
  q = fma_$N(q, r, $F{} + 0.5);
  const $F p = fma_$N(q, r * r, r);
  const $F s = bits<$F>((bits<$I>(shifted) + 1023) << 52);
  return minus_one ? fma_$N(s, p, s - 1.0) : fma_$N(s, p, s);
}
)"},
      {"log_core", {"fma"}, R"(
// log(2^e m) with s = (m - 1) / (m + 1): log(m) = 2 atanh(s), the series to s^17.
INLINE $F log_core_$N($F x) {
  const $I i = bits<$I>(x) - 0x3fe6a09e667f3bcd;
  const $I biased = bits<$I>(bits<$U>(i + (1023ll << 52)) >> 52);  // e + 1023
  const $F e = bits<$F>(biased | 0x4330000000000000) - (0x1p52 + 1023.0);
  const $F m = bits<$F>((i & 0xfffffffffffff) + 0x3fe6a09e667f3bcd);
  const $F f = m - 1.0;
  const $F s = f / (m + 1.0);
  const $F t = s * s;
  $F q = fma_$N(t, $F{} + 1.0 / 17, $F{} + 1.0 / 15);
  q = fma_$N(q, t, $F{} + 1.0 / 13);
  q = fma_$N(q, t, $F{} + 1.0 / 11);
  q = fma_$N(q, t, $F{} + 1.0 / 9);
  q = fma_$N(q, t, $F{} + 1.0 / 7);
  q = fma_$N(q, t, $F{} + 1.0 / 5);
  q = fma_$N(q, t, $F{} + 1.0 / 3);
  const $F log_m = 2.0 * fma_$N(q * t, s, s);
  $F r = fma_$N(e, $F{} + 0x1.62e42fefa39efp-1, log_m);
  r = x < __builtin_inf() ? r : x;
  r = x == 0.0 ? $F{} - __builtin_inf() : r;
  return x < 0.0 ? $F{} + __builtin_nan("") : r;
}
)"},
      {"atan2_core", {"fma"}, R"(
// atan of min / max, by atan(q) = pi/4 + atan((q - 1) / (q + 1)) above tan(pi/8), then by octant.
INLINE $F atan2_core_$N($F y, $F x) {
  const $I sign_bit = $I{} + (-__LONG_LONG_MAX__ - 1);
  const $I y_sign = bits<$I>(y) & sign_bit;
  const $I x_sign = bits<$I>(x) & sign_bit;
  $F ay = bits<$F>(bits<$I>(y) ^ y_sign);
  $F ax = bits<$F>(bits<$I>(x) ^ x_sign);
  const $I both = (ay == __builtin_inf()) & (ax == __builtin_inf());
  ay = both ? $F{} + 1.0 : ay;
  ax = both ? $F{} + 1.0 : ax;
  const $I swap = ay > ax;
  const $F small = swap ? ax : ay;
  $F large = swap ? ay : ax;
  large = large == 0.0 ? $F{} + 1.0 : large;
  const $I upper = small > large * 0.4142135623730950;
  const $F far = large == __builtin_inf() ? $F{} + 1.0 : large;
  const $F q = (upper ? small - far : small) / (upper ? small + far : large);
  const $F s = q * q;
  $F p = fma_$N(s, $F{} + 0.02136642738520321, $F{} - 0.043691232784425729);
  p = fma_$N(p, s, $F{} + 0.05696501436676131);
  p = fma_$N(p, s, $F{} - 0.066419774757345951);
  p = fma_$N(p, s, $F{} + 0.076901786318364945);
  p = fma_$N(p, s, $F{} - 0.090907910732703726);
  p = fma_$N(p, s, $F{} + 0.11111107059189064);
  p = fma_$N(p, s, $F{} - 0.14285714205857064);
  p = fma_$N(p, s, $F{} + 0.19999999999222512);
  p = fma_$N(p, s, $F{} - 0.33333333333330678);
  $F a = fma_$N(p * s, q, q) + (upper ? $F{} + 0.78539816339744831 : $F{});
  a = swap ? 1.5707963267948966 - a : a;
  a = x_sign != 0 ? 3.1415926535897931 - a : a;
  return bits<$F>(bits<$I>(a) | y_sign);
}
)"},
      {"sincos_core", {"fma"}, R"(
// sin(x + shift * pi/2) for |x| < 2^28: n pi/2 is subtracted in two parts, the first of 25 bits so
// that its product with n is exact; series on [-pi/4, pi/4].
INLINE $F sincos_core_$N($F x, i64 shift, bool tangent) {
  const $F shifted = x * 0.63661977236758134 + 0x1.8p52;
  const $F n = shifted - 0x1.8p52;
  const $I quadrant = bits<$I>(shifted) + shift;
  const $F r = (x - n * 0x1.921fb5p0) - n * 0x1.110b4611a6263p-26;
  const $F s = r * r;
  $F p = fma_$N(s, $F{} + 1.0 / 6227020800, $F{} - 1.0 / 39916800);
  p = fma_$N(p, s, $F{} + 1.0 / 362880);
  p = fma_$N(p, s, $F{} - 1.0 / 5040);
  p = fma_$N(p, s, $F{} + 1.0 / 120);
  p = fma_$N(p, s, $F{} - 1.0 / 6);
  const $F sine = fma_$N(p * s, r, r);
  $F q = fma_$N(s, $F{} - 1.0 / 87178291200, $F{} + 1.0 / 479001600);
  q = fma_$N(q, s, $F{} - 1.0 / 3628800);
  q = fma_$N(q, s, $F{} + 1.0 / 40320);
  q = fma_$N(q, s, $F{} - 1.0 / 720);
  q = fma_$N(q, s, $F{} + 1.0 / 24);
  q = fma_$N(q, s, $F{} - 0.5);
  const $F cosine = fma_$N(q, s, $F{} + 1.0);
  const $I odd = (quadrant & 1) != 0;
  if (tangent) return odd ? -cosine / sine : sine / cosine;
  const $F value = odd ? cosine : sine;
  return bits<$F>(bits<$I>(value) ^ (quadrant & 2) << 62);
}
)"},
      {"expm1", {"exp_core"}, R"(
INLINE $F expm1_$N($F x) {
  return in_double<$F, $H, $D>([]($D v) { return $D(v == 0.0 ? v : exp_core_$M(v, true)); }, x);
}
)"},
      {"sinh", {"exp_core"}, R"(
INLINE $F sinh_$N($F x) {
  return in_double<$F, $H, $D>([]($D v) {
    const $D a = v < 0.0 ? -v : v;
    const $D m = exp_core_$M(a, true);
    const $D r = 0.5 * (m + m / (m + 1.0));
    return $D(v < 0.0 ? -r : v == 0.0 ? v : r);
  }, x);
}
)"},
      {"cosh", {"exp_core"}, R"(
INLINE $F cosh_$N($F x) {
  return in_double<$F, $H, $D>([]($D v) {
    const $D e = exp_core_$M(v, false);
    return $D(0.5 * (e + 1.0 / e));
  }, x);
}
)"},
      {"log2", {"log_core"}, R"(
INLINE $F log2_$N($F x) {
  return in_double<$F, $H, $D>([]($D v) { return $D(log_core_$M(v) * 1.4426950408889634); }, x);
}
)"},
      {"log10", {"log_core"}, R"(
INLINE $F log10_$N($F x) {
  return in_double<$F, $H, $D>([]($D v) { return $D(log_core_$M(v) * 0.43429448190325183); }, x);
}
)"},
      {"log1p", {"log_core"}, R"(
INLINE $F log1p_$N($F x) {
  return in_double<$F, $H, $D>([]($D v) {
    const auto tiny = v * v < 0x1p-54;
    return $D(tiny ? v : log_core_$M(1.0 + v));
  }, x);
}
)"},
      {"sin", {"sincos_core"}, R"(
INLINE $F sin_$N($F x) {
  $F r = in_double<$F, $H, $D>([]($D v) { return $D(v == 0.0 ? v : sincos_core_$M(v, 0, false)); }, x);
  if (any($I(x * x > 0x1p56f)))
    for (int l = 0; l < $L; ++l) if (x[l] * x[l] > 0x1p56f) r[l] = __builtin_sinf(x[l]);
  return r;
}
)"},
      {"cos", {"sincos_core"}, R"(
INLINE $F cos_$N($F x) {
  $F r = in_double<$F, $H, $D>([]($D v) { return sincos_core_$M(v, 1, false); }, x);
  if (any($I(x * x > 0x1p56f)))
    for (int l = 0; l < $L; ++l) if (x[l] * x[l] > 0x1p56f) r[l] = __builtin_cosf(x[l]);
  return r;
}
)"},
      {"tan", {"sincos_core"}, R"(
INLINE $F tan_$N($F x) {
  $F r = in_double<$F, $H, $D>([]($D v) { return $D(v == 0.0 ? v : sincos_core_$M(v, 0, true)); }, x);
  if (any($I(x * x > 0x1p56f)))
    for (int l = 0; l < $L; ++l) if (x[l] * x[l] > 0x1p56f) r[l] = __builtin_tanf(x[l]);
  return r;
}
)"},
      {"atan", {"atan2_core"}, R"(
INLINE $F atan_$N($F x) {
  return in_double<$F, $H, $D>([]($D v) { return atan2_core_$M(v, $D{} + 1.0); }, x);
}
)"},
      {"asin", {"atan2_core", "core_sqrt"}, R"(
INLINE $F asin_$N($F x) {
  return in_double<$F, $H, $D>([]($D v) {
    return atan2_core_$M(v, core_sqrt_$M((1.0 - v) * (1.0 + v)));
  }, x);
}
)"},
      {"acos", {"atan2_core", "core_sqrt"}, R"(
INLINE $F acos_$N($F x) {
  return in_double<$F, $H, $D>([]($D v) {
    return atan2_core_$M(core_sqrt_$M((1.0 - v) * (1.0 + v)), v);
  }, x);
}
)"},
      {"core_sqrt", {"sqrt"}, R"(
INLINE $F core_sqrt_$N($F x) { return sqrt_$N(x); }
)"},
      {"atan2", {"atan2_core"}, R"(
INLINE $F atan2_$N($F y, $F x) {
  return in_double<$F, $H, $D>([]($D a, $D b) { return atan2_core_$M(a, b); }, y, x);
}
)"},
      {"pow", {"log_core", "exp_core", "trunc"}, R"(
// e^(y log|x|) in double; the sign and the special cases as in C's Annex F.
INLINE $F pow_$N($F x, $F y) {
  const $F a = bits<$F>(bits<$I>(x) & __INT_MAX__);
  $F r = in_double<$F, $H, $D>([]($D u, $D v) { return exp_core_$M(log_core_$M(u) * v, false); }, a, y);
  const $F whole = trunc_$N(y);
  const $F halves = trunc_$N(y * 0.5f) * 2.0f;
  r = (x < 0.0f) & (y != whole) & (a != __builtin_inff()) ? $F{} + __builtin_nanf("") : r;
  const $I odd = (y == whole) & (halves != whole);
  r = bits<$F>(bits<$I>(r) ^ (bits<$I>(x) & odd & (-__INT_MAX__ - 1)));
  const $I one = (y == 0.0f) | (x == 1.0f) |
                 ((a == 1.0f) & ((y == __builtin_inff()) | (y == -__builtin_inff())));
  return one ? $F{} + 1.0f : r;
}
)"},
  };
  return functions;
}

// The end of the name of a compiler's builtin: the register's width and "ps" or "pd".
std::string register_suffix(std::string_view element, int lanes) {
  const int bits = (element == "f32" ? 32 : 64) * lanes;
  const std::string kind = element == "f32" ? "ps" : "pd";
  if (bits == 512) return kind + "512_mask";
  if (bits == 256) return kind + "256";
  return bits == 128 ? kind : "";
}

std::string expression_of(std::string_view name, const std::string& suffix, Isa isa) {
  const bool masked = suffix.ends_with("_mask");
  const auto rounding = [&](const std::string& mode) {
    const std::string function = masked ? "__builtin_ia32_rndscale" + suffix.substr(0, 2) + "_mask"
                                        : "__builtin_ia32_round" + suffix;
    return function + "(x, " + mode + (masked ? ", x, -1, 4)" : ")");
  };
  if (suffix.empty() || isa == Isa::kGeneric) return "";
  if (name == "fma")
    return "__builtin_ia32_vfmadd" + suffix + (masked ? "(a, b, c, -1, 4)" : "(a, b, c)");
  if (name == "sqrt") return "__builtin_ia32_sqrt" + suffix + (masked ? "(x, x, -1, 4)" : "(x)");
  if (name == "round") return rounding("8");
  if (name == "floor") return rounding("9");
  if (name == "ceil") return rounding("10");
  if (name == "trunc") return rounding("11");
  if (name == "scale" && masked) return "__builtin_ia32_scalef" + suffix + "(x, n, x, -1, 4)";
  return "";
}

std::string portable(std::string_view name, const std::string& type, const std::string& integer,
                     bool single) {
  const std::string f = single ? "f" : "";
  if (name == "fma") return "return a * b + c;";
  if (name == "sqrt") return "return lanes([](auto v) { return __builtin_sqrt" + f + "(v); }, x);";
  if (name == "scale") {
    // In two steps, so that neither factor overflows and subnormal results come out.
    const std::string bias = single ? "127" : "1023", shift = single ? "23" : "52";
    return "const " + integer + " whole = convert<" + integer +
           ">(n), part = whole >> 1;\n"
           "  const " +
           type + " first = bits<" + type + ">((part + " + bias + ") << " + shift +
           ");\n  return x * first * bits<" + type + ">((whole - part + " + bias + ") << " + shift +
           ");";
  }
  const std::string function = name == "round" ? "rint" : std::string(name);
  return "return lanes([](auto v) { return __builtin_" + function + f + "(v); }, x);";
}

}  // namespace

const MathFunction* find_math(std::string_view name) {
  for (const MathFunction& f : table())
    if (f.name == name) return &f;
  return nullptr;
}

bool is_primitive(std::string_view name) {
  constexpr std::string_view kNames[] = {"fma", "round", "floor", "ceil", "trunc", "sqrt", "scale"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

std::string primitive(std::string_view name, std::string_view element, int lanes, Isa isa) {
  const bool single = element == "f32";
  const std::string suffix = "x" + std::to_string(lanes);
  const std::string type = std::string(element) + suffix;
  const std::string integer = (single ? "i32" : "i64") + suffix;
  const std::string params = name == "fma"     ? type + " a, " + type + " b, " + type + " c"
                             : name == "scale" ? type + " x, " + type + " n"
                                               : type + " x";
  const std::string head =
      "\nINLINE " + type + " " + std::string(name) + "_" + type + "(" + params + ") {\n";
  const std::string fallback = "  " + portable(name, type, integer, single) + "\n";
  const std::string builtin = expression_of(name, register_suffix(element, lanes), isa);
  if (builtin.empty()) return head + fallback + "}\n";
  // Clang has other builtins: generic ones, with the same meaning.
  std::string clang = fallback;
  if (name != "scale") {
    const std::string generic = name == "round" ? "roundeven" : std::string(name);
    const std::string args = name == "fma" ? "(a, b, c)" : "(x)";
    clang = "#if __has_builtin(__builtin_elementwise_" + generic +
            ")\n  return __builtin_elementwise_" + generic + args + ";\n#else\n" + fallback +
            "#endif\n";
  }
  return head + "#ifdef __clang__\n" + clang + "#else\n  return " + builtin + ";\n#endif\n}\n";
}

}  // namespace braze::codegen::cpp
