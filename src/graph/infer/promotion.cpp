#include "graph/infer/promotion.h"

#include "graph/arguments.h"

namespace braze::graph {
namespace {

DType complex_of(DType dtype) {
  return dtype == DType::kFloat64 ? DType::kComplex128 : DType::kComplex64;
}

// `higher` is the category that weighs more; either may be absent.
std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher) return lower;
  if (!lower || is_complex(*higher)) return higher;
  if (is_float(*higher)) return is_complex(*lower) ? complex_of(*higher) : *higher;
  if (*higher == DType::kBool || is_float(*lower) || is_complex(*lower))
    return promote_types(*higher, *lower);
  return higher;
}

void accumulate(std::optional<DType>& category, DType dtype) {
  category = category ? promote_types(*category, dtype) : dtype;
}

}  // namespace

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  if (a > b) std::swap(a, b);
  // Now a < b in the order of DType: bool, u8, i8 .. i64, f16, bf16, f32, f64, c64, c128.
  if (a == DType::kBool) return b;
  if (is_integral(b, false)) {
    // Signed types are wide enough for narrower ones; u8 needs one size more than i8.
    return a == DType::kUInt8 && b == DType::kInt8 ? DType::kInt16 : b;
  }
  if (is_integral(a, false)) return b;
  if (a == DType::kFloat16 && b == DType::kBFloat16) return DType::kFloat32;
  if (a == DType::kFloat64 && b == DType::kComplex64) return DType::kComplex128;
  return b;
}

bool can_cast(DType from, DType to) {
  if (is_complex(from)) return is_complex(to);
  if (is_float(from)) return is_float(to) || is_complex(to);
  return from == DType::kBool || to != DType::kBool;
}

DType part_of(DType dtype) {
  if (dtype == DType::kComplex64) return DType::kFloat32;
  return dtype == DType::kComplex128 ? DType::kFloat64 : dtype;
}

DType dtype_of_scalar(const Argument& scalar, DType default_dtype) {
  switch (scalar_kind(scalar)) {
    case DTypeKind::kBool:
      return DType::kBool;
    case DTypeKind::kUnsigned:
    case DTypeKind::kSigned:
      return DType::kInt64;
    case DTypeKind::kFloat:
      return default_dtype;
    case DTypeKind::kComplex:
      return complex_of(default_dtype);
  }
  BRAZE_UNREACHABLE("scalar kind");
}

DType result_type(std::span<const Argument> arguments, DType default_dtype) {
  std::optional<DType> with_dims, without_dims, numbers;
  for (const Argument& argument : arguments) {
    if (is_scalar(argument)) accumulate(numbers, dtype_of_scalar(argument, default_dtype));
    for_each_value(argument, [&](const Value* value) {
      accumulate(value->type().rank() > 0 ? with_dims : without_dims, value->type().dtype);
    });
  }
  const std::optional<DType> result = combine(with_dims, combine(without_dims, numbers));
  BRAZE_CHECK(result, "nothing to promote");
  return *result;
}

}  // namespace braze::graph
