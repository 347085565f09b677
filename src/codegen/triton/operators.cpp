#include "codegen/triton/operators.h"

#include <cmath>
#include <cstdio>

#include "base/error.h"

namespace braze::codegen::triton {
namespace {

using graph::DType;
using loop::ExprKind;

bool is_small(DType dtype) { return graph::is_integral(dtype, false) && graph::size_of(dtype) < 4; }

// `wide`: a double, else the number in single precision next to it is meant.
std::string number(double value, bool wide) {
  if (std::isnan(value)) return "float(\"nan\")";
  if (std::isinf(value)) return value < 0 ? "float(\"-inf\")" : "float(\"inf\")";
  char text[40];
  for (const int digits : {6, 9, 17}) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    const double read = std::strtod(text, nullptr);
    if (wide ? read == value : static_cast<float>(read) == static_cast<float>(value)) break;
  }
  std::string result = text;
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  return std::signbit(value) ? "(" + result + ")" : result;
}

std::string_view infix(ExprKind kind) {
  switch (kind) {
    case ExprKind::kAdd:
      return " + ";
    case ExprKind::kSub:
      return " - ";
    case ExprKind::kMul:
      return " * ";
    case ExprKind::kAnd:
      return " & ";
    case ExprKind::kOr:
      return " | ";
    case ExprKind::kXor:
      return " ^ ";
    case ExprKind::kEq:
      return " == ";
    case ExprKind::kNe:
      return " != ";
    case ExprKind::kLt:
      return " < ";
    case ExprKind::kLe:
      return " <= ";
    default:
      return "";
  }
}

// A number of Python's stands on the right of a comparison.
std::string between(ExprKind kind, std::span<const Operand> args) {
  if (args[0].is_number && kind == ExprKind::kLt) return args[1].text + " > " + args[0].text;
  if (args[0].is_number && kind == ExprKind::kLe) return args[1].text + " >= " + args[0].text;
  return args[0].text + std::string(infix(kind)) + args[1].text;
}

std::string call(const std::string& function, std::span<const Operand> args) {
  std::string text = function + "(";
  for (size_t i = 0; i < args.size(); ++i) text += (i ? ", " : "") + args[i].text;
  return text + ")";
}

std::string helper(const std::string& name, std::span<const Operand> args, Helpers& helpers) {
  helpers.insert(name);
  return call(name, args);
}

// Those of CUDA's mathematical functions by the same names; without flushing of small numbers,
// which the compiler is told.
const char* function_of(ExprKind kind) {
  switch (kind) {
    case ExprKind::kFloor:
      return "libdevice.floor";
    case ExprKind::kCeil:
      return "libdevice.ceil";
    case ExprKind::kTrunc:
      return "libdevice.trunc";
    case ExprKind::kRound:
      return "libdevice.rint";
    case ExprKind::kExp:
      return "libdevice.exp";
    case ExprKind::kExp2:
      return "libdevice.exp2";
    case ExprKind::kExpm1:
      return "libdevice.expm1";
    case ExprKind::kLog:
      return "libdevice.log";
    case ExprKind::kLog2:
      return "libdevice.log2";
    case ExprKind::kLog10:
      return "libdevice.log10";
    case ExprKind::kLog1p:
      return "libdevice.log1p";
    case ExprKind::kRsqrt:
      return "libdevice.rsqrt";
    case ExprKind::kSin:
      return "libdevice.sin";
    case ExprKind::kCos:
      return "libdevice.cos";
    case ExprKind::kTan:
      return "libdevice.tan";
    case ExprKind::kAsin:
      return "libdevice.asin";
    case ExprKind::kAcos:
      return "libdevice.acos";
    case ExprKind::kAtan:
      return "libdevice.atan";
    case ExprKind::kSinh:
      return "libdevice.sinh";
    case ExprKind::kCosh:
      return "libdevice.cosh";
    case ExprKind::kTanh:
      return "libdevice.tanh";
    case ExprKind::kErf:
      return "libdevice.erf";
    case ExprKind::kAtan2:
      return "libdevice.atan2";
    case ExprKind::kPow:
      return "libdevice.pow";
    case ExprKind::kFmod:
      return "libdevice.fmod";
    case ExprKind::kAbs:
      return "tl.abs";
    default:
      return nullptr;
  }
}

std::string float_operation(ExprKind kind, bool wide, std::span<const Operand> args,
                            Helpers& helpers) {
  if (const char* function = function_of(kind)) return call(function, args);
  const auto quotient = [&] {
    return wide ? args[0].text + " / " + args[1].text : call("tl.div_rn", args);
  };
  switch (kind) {
    case ExprKind::kNeg:
      return args[0].text + " * -1.0";  // 0 - x has another sign for x = 0
    case ExprKind::kNot:
      return args[0].text + " == 0";
    case ExprKind::kIsNan:
      return args[0].text + " != " + args[0].text;
    case ExprKind::kIsInf:
      return "tl.abs(" + args[0].text + ") == float(\"inf\")";
    case ExprKind::kSqrt:
      return call(wide ? "tl.sqrt" : "tl.sqrt_rn", args);
    case ExprKind::kDiv:
      return quotient();
    case ExprKind::kTruncDiv:
      return "libdevice.trunc(" + quotient() + ")";
    case ExprKind::kSigmoid:
      return helper(wide ? "sigmoid_f64" : "sigmoid", args, helpers);
    case ExprKind::kMod:
      return helper("mod_float", args, helpers);
    case ExprKind::kFloorDiv:
      return helper(wide ? "floordiv_f64" : "floordiv_float", args, helpers);
    case ExprKind::kMin:
      return helper(wide ? "minimum_f64" : "minimum", args, helpers);
    case ExprKind::kMax:
      return helper(wide ? "maximum_f64" : "maximum", args, helpers);
    default:
      break;
  }
  BRAZE_CHECK(!infix(kind).empty(), loop::to_string(kind), " of floats");
  return between(kind, args);
}

// One bit has a sign or not depending on who looks at it, so nothing is compared as a number.
std::string bool_operation(ExprKind kind, std::span<const Operand> args) {
  const std::string& a = args[0].text;
  const std::string b = args.size() > 1 ? args[1].text : "";
  switch (kind) {
    case ExprKind::kAdd:
    case ExprKind::kMax:
    case ExprKind::kOr:
      return a + " | " + b;
    case ExprKind::kMul:
    case ExprKind::kMin:
    case ExprKind::kAnd:
      return a + " & " + b;
    case ExprKind::kSub:
    case ExprKind::kXor:
    case ExprKind::kNe:
      return a + " ^ " + b;
    case ExprKind::kEq:
      return "~(" + a + " ^ " + b + ")";
    case ExprKind::kLt:
      return "~" + a + " & " + b;
    case ExprKind::kLe:
      return "~" + a + " | " + b;
    case ExprKind::kNot:
    case ExprKind::kBitNot:
      return "~" + a;
    case ExprKind::kIsNan:
    case ExprKind::kIsInf:
      return a + " ^ " + a;
    default:
      break;
  }
  BRAZE_UNREACHABLE(loop::to_string(kind), " of bool");
}

std::string integer_operation(ExprKind kind, int bits, std::span<const Operand> args,
                              Helpers& helpers) {
  const std::string& a = args[0].text;
  switch (kind) {
    case ExprKind::kNeg:
      return "0 - " + a;
    case ExprKind::kAbs:
      return "tl.where(" + a + " < 0, 0 - " + a + ", " + a + ")";
    case ExprKind::kFloor:
    case ExprKind::kCeil:
    case ExprKind::kTrunc:
    case ExprKind::kRound:
      return a;
    case ExprKind::kBitNot:
      return "~" + a;
    case ExprKind::kNot:
      return a + " == 0";
    case ExprKind::kIsNan:
    case ExprKind::kIsInf:
      return a + " != " + a;
    case ExprKind::kMin:
      return call("tl.minimum", args);
    case ExprKind::kMax:
      return call("tl.maximum", args);
    case ExprKind::kFloorDiv:
      helpers.insert({"truncdiv_int", "fmod_int"});
      return helper("floordiv_int", args, helpers);
    case ExprKind::kTruncDiv:
      return helper("truncdiv_int", args, helpers);
    case ExprKind::kMod:
      helpers.insert("fmod_int");
      return helper("mod_int", args, helpers);
    case ExprKind::kFmod:
      return helper("fmod_int", args, helpers);
    case ExprKind::kPow: {
      std::vector<Operand> tensors(args.begin(), args.end());
      for (Operand& arg : tensors)
        if (arg.is_number)
          arg.text = "tl.full([], " + arg.text + (bits > 32 ? ", tl.int64)" : ", tl.int32)");
      return helper("power_int", tensors, helpers);
    }
    case ExprKind::kShl:
    case ExprKind::kShr: {
      const char* name = kind == ExprKind::kShl ? "shl_int" : "shr_int";
      const Operand with_bits[] = {args[0], args[1], {std::to_string(bits), true}};
      return helper(name, with_bits, helpers);
    }
    default:
      break;
  }
  BRAZE_CHECK(!infix(kind).empty(), loop::to_string(kind), " of integers");
  return between(kind, args);
}

}  // namespace

std::string type_of(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "tl.int1";
    case DType::kUInt8:
      return "tl.uint8";
    case DType::kFloat16:
      return "tl.float16";
    case DType::kBFloat16:
      return "tl.bfloat16";
    case DType::kFloat32:
      return "tl.float32";
    case DType::kFloat64:
      return "tl.float64";
    default:
      break;
  }
  return "tl.int" + std::to_string(8 * graph::size_of(dtype));
}

std::string parameter_type(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
      return "u8";
    case DType::kBFloat16:
      return "bf16";
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return "fp" + std::to_string(8 * graph::size_of(dtype));
    default:
      break;
  }
  return "i" + std::to_string(8 * graph::size_of(dtype));
}

std::string literal(loop::ExprRef constant) {
  const DType dtype = constant->dtype;
  if (dtype == DType::kBool || dtype == DType::kFloat64 || graph::is_half(dtype))
    return typed(constant);
  if (graph::is_float(dtype)) return number(constant->fval, false);
  const std::string digits = std::to_string(constant->ival);
  return constant->ival < 0 ? "(" + digits + ")" : digits;
}

std::string typed(loop::ExprRef constant) {
  const DType dtype = constant->dtype;
  std::string value;
  if (graph::is_float(dtype))
    value = number(constant->fval, dtype == DType::kFloat64);
  else if (dtype == DType::kBool)
    value = constant->ival ? "True" : "False";
  else
    value = std::to_string(constant->ival);
  // Triton makes a bfloat16 of a text with six decimals.
  if (dtype == DType::kBFloat16) return "tl.full([], " + value + ", tl.float32).to(tl.bfloat16)";
  return "tl.full([], " + value + ", " + type_of(dtype) + ")";
}

std::string cast(const std::string& value, DType from, DType to) {
  if (from == to) return value;
  const auto converted = [](const std::string& text, DType dtype) {
    return text + ".to(" + type_of(dtype) + ")";
  };
  if (graph::is_half(from) && to != DType::kFloat32)
    return cast(cast(value, from, DType::kFloat32), DType::kFloat32, to);
  if (graph::is_half(to) && from != DType::kFloat32)
    return cast(cast(value, from, DType::kFloat32), DType::kFloat32, to);
  if (to == DType::kBool) return value + " != 0";
  // What is negative wraps.
  if (graph::is_float(from) && is_small(to))
    return converted(converted(value, to == DType::kUInt8 ? DType::kInt64 : DType::kInt32), to);
  return converted(value, to);
}

std::string operation(ExprKind kind, DType operand, bool wide, std::span<const Operand> args,
                      Helpers& helpers) {
  if (operand == DType::kBool) return bool_operation(kind, args);
  if (graph::is_float(operand))
    return float_operation(kind, operand == DType::kFloat64, args, helpers);
  const int bits = static_cast<int>(8 * graph::size_of(operand));
  std::vector<Operand> widened(args.begin(), args.end());
  for (Operand& arg : widened)
    if (!arg.is_number && (is_small(operand) || wide))
      arg.text += is_small(operand) ? ".to(tl.int32)" : ".to(tl.int64)";
  const std::string result = integer_operation(kind, bits, widened, helpers);
  if (is_small(operand) && !loop::is_comparison(kind))
    return "(" + result + ").to(" + type_of(operand) + ")";
  return result;
}

}  // namespace braze::codegen::triton
