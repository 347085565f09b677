#include "codegen/cuda/operators.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "base/error.h"

namespace braze::codegen::cuda {
namespace {

using graph::DType;
using loop::ExprKind;
using loop::ReduceOp;

bool is_small(DType dtype) { return graph::is_integral(dtype, false) && graph::size_of(dtype) < 4; }

std::string call(std::string_view function, std::span<const std::string> args) {
  std::string text = std::string(function) + "(";
  for (size_t i = 0; i < args.size(); ++i) text += (i ? ", " : "") + args[i];
  return text + ")";
}

std::string float_literal(double value, bool wide) {
  if (std::isnan(value))
    return wide ? "__longlong_as_double(0x7ff8000000000000)" : "__int_as_float(0x7fc00000)";
  if (std::isinf(value))
    return std::string(value < 0 ? "least" : "most") + (wide ? "<f64>()" : "<f32>()");
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", wide ? 17 : 9, value);
  std::string result = text;
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  if (!wide) result += "f";
  return std::signbit(value) ? "(" + result + ")" : result;
}

std::string integer_literal(int64_t value, DType dtype) {
  if (value == std::numeric_limits<int64_t>::min()) return "least<i64>()";
  std::string digits = std::to_string(value);
  if (dtype == DType::kInt64 && (value > INT32_MAX || value < INT32_MIN)) digits += "ll";
  return value < 0 ? "(" + digits + ")" : digits;
}

std::string_view infix(ExprKind kind) {
  switch (kind) {
    case ExprKind::kAdd:
      return "+";
    case ExprKind::kSub:
      return "-";
    case ExprKind::kMul:
      return "*";
    case ExprKind::kDiv:
      return "/";
    case ExprKind::kAnd:
      return "&";
    case ExprKind::kOr:
      return "|";
    case ExprKind::kXor:
      return "^";
    case ExprKind::kEq:
      return "==";
    case ExprKind::kNe:
      return "!=";
    case ExprKind::kLt:
      return "<";
    case ExprKind::kLe:
      return "<=";
    default:
      return "";
  }
}

// Of floats: the function's name in f32, in f64.
struct Function {
  ExprKind kind;
  const char* single;
  const char* wide;
};
constexpr Function kFunctions[] = {
    {ExprKind::kAbs, "fabsf", "fabs"},
    {ExprKind::kFloor, "floorf", "floor"},
    {ExprKind::kCeil, "ceilf", "ceil"},
    {ExprKind::kTrunc, "truncf", "trunc"},
    {ExprKind::kRound, "rintf", "rint"},
    {ExprKind::kSqrt, "sqrtf", "sqrt"},
    {ExprKind::kExp, "expf", "exp"},
    {ExprKind::kExp2, "exp2f", "exp2"},
    {ExprKind::kExpm1, "expm1f", "expm1"},
    {ExprKind::kLog, "logf", "log"},
    {ExprKind::kLog2, "log2f", "log2"},
    {ExprKind::kLog10, "log10f", "log10"},
    {ExprKind::kLog1p, "log1pf", "log1p"},
    {ExprKind::kRsqrt, "rsqrtf", "rsqrt"},
    {ExprKind::kSin, "sinf", "sin"},
    {ExprKind::kCos, "cosf", "cos"},
    {ExprKind::kTan, "tanf", "tan"},
    {ExprKind::kAsin, "asinf", "asin"},
    {ExprKind::kAcos, "acosf", "acos"},
    {ExprKind::kAtan, "atanf", "atan"},
    {ExprKind::kSinh, "sinhf", "sinh"},
    {ExprKind::kCosh, "coshf", "cosh"},
    {ExprKind::kTanh, "tanhf", "tanh"},
    {ExprKind::kErf, "erff", "erf"},
    {ExprKind::kSigmoid, "sigmoid", "sigmoid"},
    {ExprKind::kAtan2, "atan2f", "atan2"},
    {ExprKind::kPow, "powf", "pow"},
    {ExprKind::kFmod, "fmodf", "fmod"},
    {ExprKind::kMod, "mod_of", "mod_of"},
    {ExprKind::kFloorDiv, "floordiv_of", "floordiv_of"},
    {ExprKind::kMin, "minimum", "minimum"},
    {ExprKind::kMax, "maximum", "maximum"},
};

std::string float_operation(ExprKind kind, bool wide, std::span<const std::string> args) {
  for (const Function& function : kFunctions)
    if (function.kind == kind) return call(wide ? function.wide : function.single, args);
  switch (kind) {
    case ExprKind::kNeg:
      return "-" + args[0];
    case ExprKind::kNot:
      return args[0] + " == 0";
    case ExprKind::kIsNan:
      return args[0] + " != " + args[0];
    case ExprKind::kIsInf: {
      const std::string type = wide ? "<f64>()" : "<f32>()";
      return args[0] + " == most" + type + " || " + args[0] + " == least" + type;
    }
    case ExprKind::kTruncDiv:
      return std::string(wide ? "trunc(" : "truncf(") + args[0] + " / " + args[1] + ")";
    default:
      break;
  }
  BRAZE_CHECK(!infix(kind).empty(), loop::to_string(kind), " of floats");
  return args[0] + " " + std::string(infix(kind)) + " " + args[1];
}

std::string bool_operation(ExprKind kind, std::span<const std::string> args) {
  switch (kind) {
    case ExprKind::kAdd:
    case ExprKind::kMax:
      return args[0] + " | " + args[1];
    case ExprKind::kMul:
    case ExprKind::kMin:
      return args[0] + " & " + args[1];
    case ExprKind::kSub:
      return args[0] + " ^ " + args[1];
    case ExprKind::kNot:
    case ExprKind::kBitNot:
      return "!" + args[0];
    case ExprKind::kIsNan:
    case ExprKind::kIsInf:
      return "false";
    default:
      break;
  }
  BRAZE_CHECK(!infix(kind).empty(), loop::to_string(kind), " of bool");
  return args[0] + " " + std::string(infix(kind)) + " " + args[1];
}

// Sums, differences and products wrap.
std::string wrapping(ExprKind kind, const std::string& type, std::span<const std::string> args) {
  const std::string word = type == "i64" ? "u64" : "u32";
  std::string text = "(" + word + ")" + args[0];
  if (kind == ExprKind::kNeg) return "(" + type + ")(0 - " + text + ")";
  text += " " + std::string(infix(kind)) + " (" + word + ")" + args[1];
  return "(" + type + ")(" + text + ")";
}

std::string integer_operation(ExprKind kind, const std::string& type,
                              std::span<const std::string> args) {
  switch (kind) {
    case ExprKind::kNeg:
    case ExprKind::kAdd:
    case ExprKind::kSub:
    case ExprKind::kMul:
      return wrapping(kind, type, args);
    case ExprKind::kAbs: {
      const std::string negative = wrapping(ExprKind::kNeg, type, args);
      return args[0] + " < 0 ? " + negative + " : " + args[0];
    }
    case ExprKind::kFloor:
    case ExprKind::kCeil:
    case ExprKind::kTrunc:
    case ExprKind::kRound:
      return args[0];
    case ExprKind::kBitNot:
      return "(" + type + ")~" + args[0];
    case ExprKind::kNot:
      return args[0] + " == 0";
    case ExprKind::kIsNan:
    case ExprKind::kIsInf:
      return "false";
    case ExprKind::kMin:
      return call("minimum<" + type + ">", args);
    case ExprKind::kMax:
      return call("maximum<" + type + ">", args);
    case ExprKind::kFloorDiv:
      return call("floordiv_int<" + type + ">", args);
    case ExprKind::kTruncDiv:
      return call("truncdiv_int<" + type + ">", args);
    case ExprKind::kMod:
      return call("mod_int<" + type + ">", args);
    case ExprKind::kFmod:
      return call("fmod_int<" + type + ">", args);
    case ExprKind::kPow:
      return call("power_int<" + type + ">", args);
    case ExprKind::kShl:
      return call("shl_int<" + type + ">", args);
    case ExprKind::kShr:
      return call("shr_int<" + type + ">", args);
    default:
      break;
  }
  BRAZE_CHECK(!infix(kind).empty() && kind != ExprKind::kDiv, loop::to_string(kind),
              " of integers");
  const std::string text = args[0] + " " + std::string(infix(kind)) + " " + args[1];
  return loop::is_comparison(kind) ? text : "(" + type + ")(" + text + ")";
}

// Elements of integers narrower than a word are added up in words, and wrap when they are stored.
std::string accumulated_type(const loop::Statement& s) {
  const DType dtype = s.accumulate;
  if (graph::is_float(dtype)) return type_of(dtype);
  const bool wraps = s.op == ReduceOp::kSum || s.op == ReduceOp::kProd;
  if (dtype == DType::kInt64) return wraps ? "u64" : "i64";
  return wraps ? "u32" : "i32";
}

}  // namespace

std::string type_of(DType dtype) {
  if (graph::is_half(dtype)) return "u16";
  return std::string(graph::to_string(dtype));
}

std::string storage_type_of(DType dtype) { return dtype == DType::kBool ? "u8" : type_of(dtype); }

std::string parameter_type(const loop::BufferParam& param) {
  return (param.written ? "" : "const ") + storage_type_of(param.dtype);
}

std::string literal(loop::ExprRef constant) {
  const DType dtype = constant->dtype;
  if (graph::is_half(dtype))
    return (dtype == DType::kFloat16 ? "to_f16(" : "to_bf16(") +
           float_literal(constant->fval, false) + ")";
  if (graph::is_float(dtype)) return float_literal(constant->fval, dtype == DType::kFloat64);
  if (dtype == DType::kBool) return constant->ival ? "true" : "false";
  return integer_literal(constant->ival, dtype);
}

std::string cast(const std::string& value, DType from, DType to) {
  if (from == to) return value;
  if (from == DType::kFloat16) return cast("from_f16(" + value + ")", DType::kFloat32, to);
  if (from == DType::kBFloat16) return cast("from_bf16(" + value + ")", DType::kFloat32, to);
  if (to == DType::kFloat16) return "to_f16(" + cast(value, from, DType::kFloat32) + ")";
  if (to == DType::kBFloat16) return "to_bf16(" + cast(value, from, DType::kFloat32) + ")";
  if (to == DType::kBool) return "(" + value + " != 0)";
  // As eager has it: what is negative wraps.
  if (to == DType::kUInt8 && graph::is_float(from)) return "(u8)(i64)" + value;
  return "(" + type_of(to) + ")" + value;
}

std::string operation(ExprKind kind, DType operand, const std::string& type,
                      std::span<const std::string> args) {
  if (operand == DType::kBool) return bool_operation(kind, args);
  if (graph::is_float(operand)) return float_operation(kind, operand == DType::kFloat64, args);
  if (kind == ExprKind::kShl || kind == ExprKind::kShr)
    return integer_operation(kind, operand == DType::kInt64 ? type : type_of(operand), args);
  if (is_small(operand) && !loop::is_comparison(kind))
    return "(" + type_of(operand) + ")(" + integer_operation(kind, "i32", args) + ")";
  return integer_operation(kind, type, args);
}

std::string accumulator_of(const loop::Statement& s, const std::string& place) {
  const std::string type = accumulated_type(s);
  switch (s.op) {
    case ReduceOp::kSum:
      return "Sum<" + type + ">";
    case ReduceOp::kProd:
      return "Prod<" + type + ">";
    case ReduceOp::kMax:
      return "Max<" + type + ">";
    case ReduceOp::kMin:
      return "Min<" + type + ">";
    case ReduceOp::kArgMax:
      return "ArgMax<" + type + ", " + place + ">";
    case ReduceOp::kArgMin:
      return "ArgMin<" + type + ", " + place + ">";
    case ReduceOp::kAny:
      return "Any<i32>";
    case ReduceOp::kAll:
      return "All<i32>";
    case ReduceOp::kWelford:
      return "Welford<" + type + ">";
  }
  BRAZE_UNREACHABLE("reduction");
}

std::string result_of(const loop::Statement& s, int component, const std::string& name) {
  const DType dtype = loop::reduced_dtype(s.op, s.accumulate, component);
  const auto typed = [&](const std::string& member) {
    if (dtype == DType::kBool) return "(" + name + member + " != 0)";
    return "(" + type_of(dtype) + ")" + name + member;
  };
  if (s.op == ReduceOp::kWelford)
    return typed(component == 0 ? ".mean" : component == 1 ? ".m2" : ".count");
  if ((s.op == ReduceOp::kArgMax || s.op == ReduceOp::kArgMin) && component == 0)
    return typed(".place()");
  return typed(".value");
}

}  // namespace braze::codegen::cuda
