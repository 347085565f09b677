#include "trace/number_range.h"

#include <c10/core/Scalar.h>

#include "base/is_one_of.h"
#include "trace/fake_tensor.h"

namespace braze::trace {

namespace {

// Fits into every dtype, but for those of very small integers.
bool is_ordinary(const c10::Scalar& number) {
  if (number.isBoolean() || number.isSymbolic()) return true;
  if (number.isIntegral(false)) return number.toLong() >= 0 && number.toLong() < 128;
  return !number.isComplex() && number.toDouble() >= -1e4 && number.toDouble() <= 1e4;
}

// Whether the conversion of PyTorch, which checks the range, takes the number.
bool converts(const c10::Scalar& number, at::ScalarType dtype) {
  try {
    switch (dtype) {
      case at::kByte:
        return number.toByte(), true;
      case at::kChar:
        return number.toChar(), true;
      case at::kShort:
        return number.toShort(), true;
      case at::kInt:
        return number.toInt(), true;
      case at::kLong:
        return number.toLong(), true;
      case at::kHalf:
        return number.toHalf(), true;
      case at::kBFloat16:
        return number.toBFloat16(), true;
      case at::kFloat:
        return number.toFloat(), true;
      case at::kDouble:
        return number.toDouble(), true;
      case at::kComplexFloat:
        return number.toComplexFloat(), true;
      default:
        return true;  // bool and complex128 hold any
    }
  } catch (const std::exception&) {  // how Scalar::to says that the number is out of range
    return false;
  }
}

// What the number is converted to beside tensors of the dtype. `stored`: to an element, or to what
// multiplies elements; else it takes part in type promotion.
at::ScalarType target(const c10::Scalar& number, at::ScalarType dtype, bool stored) {
  const bool half = dtype == at::kHalf || dtype == at::kBFloat16;
  if (half && !stored) return at::kFloat;
  if (!stored && number.isFloatingPoint() && c10::isIntegralType(dtype, /*includeBool=*/true))
    return c10::typeMetaToScalarType(c10::get_default_dtype());
  return dtype;
}

// A Python float where a tensor may stand.
bool is_float(const at::Tensor& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->is_wrapped_number() &&
         tensor.scalar_type() == at::kDouble && !as_fake(tensor) && tensor.device().is_cpu();
}

std::string refused_dtype(const OperatorInfo& info, at::ScalarType dtype) {
  const bool integral = c10::isIntegralType(dtype, /*includeBool=*/true);
  const bool refused = (info.has(graph::kNotForIntegers) && integral) ||
                       (info.has(graph::kNotForBools) && dtype == at::kBool);
  return refused ? std::string("it is not made for ") + c10::toString(dtype) : "";
}

}  // namespace

bool fits(const c10::Scalar& number, at::ScalarType dtype) {
  return is_ordinary(number) || converts(number, dtype);
}

bool all_fit(at::ScalarType source, at::ScalarType dtype) {
  if (source == dtype || source == at::kBool || dtype == at::kBool) return true;
  const bool wide = dtype == at::kFloat || dtype == at::kDouble || c10::isComplexType(dtype);
  const bool narrow = c10::isIntegralType(source, true) || source == at::kHalf ||
                      source == at::kBFloat16 || source == at::kFloat;
  return wide && narrow;
}

std::string refused_by_kernel(const OperatorInfo& info, const c10::IValue* arguments) {
  const auto& schema = info.handle.schema();
  const bool chooses = info.has(graph::kChooses);
  bool any = chooses;
  for (size_t i = 0; i < info.arguments.size(); ++i)
    any = any || info.arguments[i] == ArgumentKind::kScalar;
  if (!any) return "";
  std::optional<at::ScalarType> dtype;
  if (info.dtype_argument >= 0 && !arguments[info.dtype_argument].isNone())
    dtype = static_cast<at::ScalarType>(arguments[info.dtype_argument].toInt());
  for (size_t i = chooses ? 1 : 0; !dtype && i < info.arguments.size(); ++i) {
    if (info.arguments[i] != ArgumentKind::kTensor || !arguments[i].isTensor()) continue;
    const at::Tensor& tensor = arguments[i].toTensor();
    if (tensor.defined() && !tensor.unsafeGetTensorImpl()->is_wrapped_number())
      dtype = tensor.scalar_type();
  }
  if (dtype)
    if (std::string refused = refused_dtype(info, *dtype); !refused.empty()) return refused;
  for (size_t i = 0; i < info.arguments.size(); ++i) {
    const std::string& argument = schema.arguments()[i].name();
    c10::Scalar number;
    if (chooses && arguments[i].isTensor() && is_float(arguments[i].toTensor()))
      number = *arguments[i].toTensor().const_data_ptr<double>();
    else if (info.arguments[i] == ArgumentKind::kScalar && arguments[i].isScalar())
      number = arguments[i].toScalar();
    else
      continue;
    // Operands are converted as tensors are, without a look at their range.
    if (!chooses && is_one_of(argument, {"self", "other", "exponent"})) continue;
    // A difference is a sum with -alpha.
    if (argument == "alpha" && info.has(graph::kNegatesAlpha) && !number.isBoolean() &&
        !number.isSymbolic())
      number = -number;
    const bool stored = is_one_of(argument, {"value", "fill_value", "s", "alpha", "beta"});
    const at::ScalarType among = dtype.value_or(
        number.isFloatingPoint() ? c10::typeMetaToScalarType(c10::get_default_dtype()) : at::kLong);
    if (!is_ordinary(number) && !converts(number, target(number, among, stored)))
      return "a number that does not fit into " + std::string(c10::toString(among));
  }
  return "";
}

}  // namespace braze::trace
