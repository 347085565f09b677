#include "loop/scalar.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/philox.h"

namespace braze::loop {
namespace {

// IEEE binary16 and bfloat16 by bits, half to even.
float half_to_float(uint16_t bits) {
  int exponent = bits >> 10 & 0x1f;
  int mantissa = bits & 0x3ff;
  double sign = bits >> 15 ? -1.0 : 1.0;
  if (exponent == 0x1f) return static_cast<float>(mantissa ? std::nan("") : sign * INFINITY);
  if (exponent == 0) return static_cast<float>(sign * std::ldexp(mantissa, -24));
  return static_cast<float>(sign * std::ldexp(mantissa + 1024, exponent - 25));
}

uint16_t float_to_half(float value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return 0x7e00;
  float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  if (magnitude < std::ldexp(1.0f, -14)) {  // subnormal: a multiple of 2^-24
    return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 24)));
  }
  int exponent;
  float fraction = std::frexp(magnitude, &exponent);  // in [0.5, 1)
  auto mantissa = static_cast<uint32_t>(std::nearbyint(std::ldexp(fraction, 11)));
  return sign | static_cast<uint16_t>(((exponent + 14) << 10) + (mantissa - 1024));
}

float bfloat_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t float_to_bfloat(float value) {
  if (std::isnan(value)) return 0x7fc0;
  auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// As the x86 conversion instructions do: what does not fit gives the smallest integer.
int64_t truncate(double value, DType to) {
  Range range = to == DType::kInt32 ? range_of(DType::kInt32) : Range{};
  double limit = to == DType::kInt32 ? 2147483648.0 : 9223372036854775808.0;
  if (!(value < limit && std::trunc(value) >= -limit)) return range.lo;
  return static_cast<int64_t>(value);
}

int64_t shift_left(int64_t a, int64_t b, int64_t width) {
  if (b < 0 || b >= width) return 0;
  return static_cast<int64_t>(static_cast<uint64_t>(a) << b);
}

int64_t shift_right(int64_t a, int64_t b, int64_t width) {
  if (b < 0 || b >= width) return a < 0 ? -1 : 0;
  return a >> b;
}

int64_t floor_div(int64_t a, int64_t b) {
  if (b == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a));
  return sym::floordiv(a, b);
}

int64_t floor_mod(int64_t a, int64_t b) {
  if (b == -1) return 0;
  int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

int64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1;
  for (auto square = static_cast<uint64_t>(base); exponent > 0; exponent >>= 1, square *= square)
    if (exponent & 1) result *= square;
  return static_cast<int64_t>(result);
}

template <class T>
T float_floor_mod(T a, T b) {
  T r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// ATen's floor division of floats (c10::div_floor_floating): exact where a / b would round up.
template <class T>
T float_floor_div(T a, T b) {
  if (b == 0) return a / b;
  T r = std::fmod(a, b);
  T q = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) q -= 1;
  if (q == 0) return std::copysign(T(0), a / b);
  T floored = std::floor(q);
  return q - floored > T(0.5) ? floored + 1 : floored;
}

Scalar of_bool(bool value) { return {.i = value, .f = 0}; }

// `T` is float or double: every intermediate result has that type.
template <class T>
Scalar apply_float(ExprKind kind, std::span<const Scalar> args) {
  const T a = static_cast<T>(args[0].f);
  const T b = args.size() > 1 ? static_cast<T>(args[1].f) : T(0);
  auto result = [](T value) { return Scalar{0, static_cast<double>(value)}; };
  switch (kind) {
    case ExprKind::kNeg:
      return result(-a);
    case ExprKind::kAbs:
      return result(std::fabs(a));
    case ExprKind::kExp:
      return result(std::exp(a));
    case ExprKind::kExp2:
      return result(std::exp2(a));
    case ExprKind::kExpm1:
      return result(std::expm1(a));
    case ExprKind::kLog:
      return result(std::log(a));
    case ExprKind::kLog2:
      return result(std::log2(a));
    case ExprKind::kLog10:
      return result(std::log10(a));
    case ExprKind::kLog1p:
      return result(std::log1p(a));
    case ExprKind::kSqrt:
      return result(std::sqrt(a));
    case ExprKind::kRsqrt:
      return result(T(1) / std::sqrt(a));
    case ExprKind::kSin:
      return result(std::sin(a));
    case ExprKind::kCos:
      return result(std::cos(a));
    case ExprKind::kTan:
      return result(std::tan(a));
    case ExprKind::kAsin:
      return result(std::asin(a));
    case ExprKind::kAcos:
      return result(std::acos(a));
    case ExprKind::kAtan:
      return result(std::atan(a));
    case ExprKind::kSinh:
      return result(std::sinh(a));
    case ExprKind::kCosh:
      return result(std::cosh(a));
    case ExprKind::kTanh:
      return result(std::tanh(a));
    case ExprKind::kErf:
      return result(std::erf(a));
    case ExprKind::kSigmoid:
      return result(T(1) / (T(1) + std::exp(-a)));
    case ExprKind::kFloor:
      return result(std::floor(a));
    case ExprKind::kCeil:
      return result(std::ceil(a));
    case ExprKind::kTrunc:
      return result(std::trunc(a));
    case ExprKind::kRound:
      return result(std::nearbyint(a));
    case ExprKind::kNot:
      return of_bool(a == 0);
    case ExprKind::kIsNan:
      return of_bool(std::isnan(a));
    case ExprKind::kIsInf:
      return of_bool(std::isinf(a));
    case ExprKind::kAdd:
      return result(a + b);
    case ExprKind::kSub:
      return result(a - b);
    case ExprKind::kMul:
      return result(a * b);
    case ExprKind::kDiv:
      return result(a / b);
    case ExprKind::kFloorDiv:
      return result(float_floor_div(a, b));
    case ExprKind::kTruncDiv:
      return result(std::trunc(a / b));
    case ExprKind::kMod:
      return result(float_floor_mod(a, b));
    case ExprKind::kFmod:
      return result(std::fmod(a, b));
    case ExprKind::kPow:
      return result(std::pow(a, b));
    case ExprKind::kAtan2:
      return result(std::atan2(a, b));
    case ExprKind::kMin:
      return result(std::isnan(a) ? a : std::isnan(b) ? b : std::min(a, b));
    case ExprKind::kMax:
      return result(std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b));
    case ExprKind::kEq:
      return of_bool(a == b);
    case ExprKind::kNe:
      return of_bool(a != b);
    case ExprKind::kLt:
      return of_bool(a < b);
    case ExprKind::kLe:
      return of_bool(a <= b);
#define X(id, text, arity, is_comparison, cost) case ExprKind::k##id:
      BRAZE_LOOP_TERMS(X)
      BRAZE_LOOP_BITS(X)
      BRAZE_LOOP_RANDOM(X)
      BRAZE_LOOP_CONTROL(X)
#undef X
      break;
  }
  BRAZE_UNREACHABLE("no float ", to_string(kind));
}

int64_t apply_integer(ExprKind kind, DType dtype, int64_t a, int64_t b) {
  const int64_t width = 8 * graph::size_of(dtype);
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (kind) {
    case ExprKind::kNeg:
      return static_cast<int64_t>(0 - ua);
    case ExprKind::kAbs:
      return a < 0 ? static_cast<int64_t>(0 - ua) : a;
    case ExprKind::kFloor:
    case ExprKind::kCeil:
    case ExprKind::kTrunc:
    case ExprKind::kRound:
      return a;
    case ExprKind::kBitNot:
      return dtype == DType::kBool ? !a : ~a;
    case ExprKind::kNot:
      return a == 0;
    case ExprKind::kIsNan:
    case ExprKind::kIsInf:
      return 0;
    case ExprKind::kAdd:
      return static_cast<int64_t>(ua + ub);
    case ExprKind::kSub:
      return static_cast<int64_t>(ua - ub);
    case ExprKind::kMul:
      return static_cast<int64_t>(ua * ub);
    case ExprKind::kFloorDiv:
      return floor_div(a, b);
    case ExprKind::kTruncDiv:
      return b == -1 ? static_cast<int64_t>(0 - ua) : a / b;
    case ExprKind::kMod:
      return floor_mod(a, b);
    case ExprKind::kFmod:
      return b == -1 ? 0 : a % b;
    case ExprKind::kPow:
      return power(a, b);
    case ExprKind::kMin:
      return std::min(a, b);
    case ExprKind::kMax:
      return std::max(a, b);
    case ExprKind::kAnd:
      return a & b;
    case ExprKind::kOr:
      return a | b;
    case ExprKind::kXor:
      return a ^ b;
    case ExprKind::kShl:
      return shift_left(a, b, width);
    case ExprKind::kShr:
      return shift_right(a, b, width);
    case ExprKind::kEq:
      return a == b;
    case ExprKind::kNe:
      return a != b;
    case ExprKind::kLt:
      return a < b;
    case ExprKind::kLe:
      return a <= b;
#define X(id, text, arity, is_comparison, cost) case ExprKind::k##id:
      BRAZE_LOOP_TERMS(X)
      BRAZE_LOOP_EXACT_FLOATS(X)
      BRAZE_LOOP_FUNCTIONS(X)
      BRAZE_LOOP_RANDOM(X)
      BRAZE_LOOP_CONTROL(X)
#undef X
      break;
  }
  BRAZE_UNREACHABLE("no integer ", to_string(kind));
}

Scalar random(std::span<const Scalar> args) {
  const auto bits = [&](int i) { return static_cast<uint64_t>(args[i].i); };
  const uint32_t word = philox(bits(0), bits(1), bits(2))[bits(3) & 3];
  return {static_cast<int32_t>(word), 0};
}

}  // namespace

int64_t wrap(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::kBool:
      return value != 0;
    case DType::kUInt8:
      return static_cast<uint8_t>(value);
    case DType::kInt8:
      return static_cast<int8_t>(value);
    case DType::kInt16:
      return static_cast<int16_t>(value);
    case DType::kInt32:
      return static_cast<int32_t>(value);
    case DType::kInt64:
      return value;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kComplex64:
    case DType::kComplex128:
      break;
  }
  BRAZE_UNREACHABLE("not an integer dtype: ", graph::to_string(dtype));
}

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::kFloat16:
      return half_to_float(float_to_half(static_cast<float>(value)));
    case DType::kBFloat16:
      return bfloat_to_float(float_to_bfloat(static_cast<float>(value)));
    case DType::kFloat32:
      return static_cast<float>(value);
    case DType::kFloat64:
      return value;
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kComplex64:
    case DType::kComplex128:
      break;
  }
  BRAZE_UNREACHABLE("not a float dtype: ", graph::to_string(dtype));
}

Range range_of(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return {0, 1};
    case DType::kUInt8:
      return {0, 255};
    case DType::kInt8:
      return {-128, 127};
    case DType::kInt16:
      return {-32768, 32767};
    case DType::kInt32:
      return {INT32_MIN, INT32_MAX};
    case DType::kInt64:
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kComplex64:
    case DType::kComplex128:
      break;
  }
  return {};
}

Scalar convert(Scalar value, DType from, DType to) {
  if (graph::is_float(from)) {
    if (graph::is_float(to)) return {0, round_to(to, value.f)};
    if (to == DType::kBool) return of_bool(value.f != 0);
    return {wrap(to, truncate(value.f, to)), 0};
  }
  if (!graph::is_float(to)) return {wrap(to, value.i), 0};
  if (to == DType::kFloat64) return {0, static_cast<double>(value.i)};
  return {0, round_to(to, static_cast<float>(value.i))};
}

Scalar apply(ExprKind kind, DType operand, std::span<const Scalar> args) {
  if (kind == ExprKind::kWhere) return args[0].i ? args[1] : args[2];
  if (kind == ExprKind::kRandom) return random(args);
  if (operand == DType::kFloat64) return apply_float<double>(kind, args);
  if (graph::is_float(operand)) return apply_float<float>(kind, args);
  int64_t value = apply_integer(kind, operand, args[0].i, args.size() > 1 ? args[1].i : 0);
  return {is_comparison(kind) ? value : wrap(operand, value), 0};
}

namespace {
template <class T>
T read(const void* base, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(base) + index * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}
template <class T>
void write(void* base, int64_t index, T value) {
  std::memcpy(static_cast<char*>(base) + index * static_cast<int64_t>(sizeof(T)), &value,
              sizeof(T));
}
}  // namespace

Scalar load(DType dtype, const void* base, int64_t index) {
  switch (dtype) {
    case DType::kBool:
      return of_bool(read<uint8_t>(base, index) != 0);
    case DType::kUInt8:
      return {read<uint8_t>(base, index), 0};
    case DType::kInt8:
      return {read<int8_t>(base, index), 0};
    case DType::kInt16:
      return {read<int16_t>(base, index), 0};
    case DType::kInt32:
      return {read<int32_t>(base, index), 0};
    case DType::kInt64:
      return {read<int64_t>(base, index), 0};
    case DType::kFloat16:
      return {0, half_to_float(read<uint16_t>(base, index))};
    case DType::kBFloat16:
      return {0, bfloat_to_float(read<uint16_t>(base, index))};
    case DType::kFloat32:
      return {0, read<float>(base, index)};
    case DType::kFloat64:
      return {0, read<double>(base, index)};
    case DType::kComplex64:
    case DType::kComplex128:
      break;
  }
  BRAZE_UNREACHABLE("a load of ", graph::to_string(dtype));
}

void store(DType dtype, void* base, int64_t index, Scalar value) {
  switch (dtype) {
    case DType::kBool:
      return write(base, index, static_cast<uint8_t>(value.i != 0));
    case DType::kUInt8:
      return write(base, index, static_cast<uint8_t>(value.i));
    case DType::kInt8:
      return write(base, index, static_cast<int8_t>(value.i));
    case DType::kInt16:
      return write(base, index, static_cast<int16_t>(value.i));
    case DType::kInt32:
      return write(base, index, static_cast<int32_t>(value.i));
    case DType::kInt64:
      return write(base, index, value.i);
    case DType::kFloat16:
      return write(base, index, float_to_half(static_cast<float>(value.f)));
    case DType::kBFloat16:
      return write(base, index, float_to_bfloat(static_cast<float>(value.f)));
    case DType::kFloat32:
      return write(base, index, static_cast<float>(value.f));
    case DType::kFloat64:
      return write(base, index, value.f);
    case DType::kComplex64:
    case DType::kComplex128:
      break;
  }
  BRAZE_UNREACHABLE("a store of ", graph::to_string(dtype));
}

}  // namespace braze::loop
