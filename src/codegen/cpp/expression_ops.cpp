// Arithmetic, comparisons and conversions.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/error.h"
#include "codegen/cpp/expression.h"

namespace braze::codegen::cpp {

using graph::DType;
using loop::ExprKind;
using loop::ExprRef;

namespace {

bool is_small(DType dtype) { return graph::is_integral(dtype, false) && graph::size_of(dtype) < 4; }

std::string_view infix(ExprKind kind) {
  switch (kind) {
    case ExprKind::kAdd:
      return " + ";
    case ExprKind::kSub:
      return " - ";
    case ExprKind::kMul:
      return " * ";
    case ExprKind::kDiv:
      return " / ";
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

}  // namespace

std::string literal(DType dtype, double value) {
  const bool wide = dtype == DType::kFloat64;
  const std::string f = wide ? "" : "f";
  if (std::isnan(value)) return "__builtin_nan" + f + "(\"\")";
  if (std::isinf(value)) return (value < 0 ? "(-__builtin_inf" : "(__builtin_inf") + f + "())";
  char text[400];  // what %g may need at most, as the compiler sees it
  std::snprintf(text, sizeof text, "%.*g", wide ? 17 : 9, value);
  std::string result = text;
  // The shortest form that reads back as the same number.
  for (int digits = 1; digits < (wide ? 17 : 9); ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    const double back = std::strtod(text, nullptr);
    if (wide ? back == value : static_cast<float>(back) == static_cast<float>(value)) {
      result = text;
      break;
    }
  }
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  result += f;
  return std::signbit(value) ? "(" + result + ")" : result;
}

std::string constant(ExprRef expr) {
  if (graph::is_float(expr->dtype)) return literal(expr->dtype, expr->fval);
  if (expr->dtype == DType::kBool) return expr->ival ? "true" : "false";
  if (expr->ival == std::numeric_limits<int64_t>::min()) return "(-__LONG_LONG_MAX__ - 1)";
  const std::string digits = std::to_string(expr->ival);
  return expr->ival < 0 ? "(" + digits + ")" : digits;
}

std::string ExpressionWriter::as_vector(const Operand& value, DType dtype) {
  if (value.vector) return paren(value);
  const std::string type = type_of(dtype, true);
  if (dtype == DType::kBool) {
    const std::string element = "i" + std::to_string(8 * nest_.mask_bytes);
    prelude_.need("splat");
    return "splat<" + type + ">(" + element + "(" + paren(value) + " ? -1 : 0))";
  }
  prelude_.need("splat");
  return "splat<" + type + ">(" + scalar_type(dtype) + "(" + value.text + "))";
}

// An operand of a vector operator: the language repeats a scalar of the element's type by itself.
std::string ExpressionWriter::mixed(const Operand& value, DType dtype, bool vector) {
  if (!vector || value.vector) return paren(value);
  if (compute_bytes(dtype) < 4 || dtype == DType::kBool) return as_vector(value, dtype);
  return graph::is_float(dtype) ? paren(value) : scalar_type(dtype) + "(" + value.text + ")";
}

std::string ExpressionWriter::mask_as(const std::string& mask, int bytes) {
  if (bytes == nest_.mask_bytes) return mask;
  prelude_.need("convert");
  return "convert<" + prelude_.vector("i" + std::to_string(8 * bytes), nest_.lanes) + ">(" + mask +
         ")";
}

std::string ExpressionWriter::to_mask(const std::string& comparison, DType dtype) {
  if (compute_bytes(dtype) != nest_.mask_bytes) {
    prelude_.need("convert");
    return "convert<" + mask_type() + ">(" + comparison + ")";
  }
  // Of 8 bytes comparisons give vectors of `long`, masks are of `long long`: not the same type,
  // which a choice between two masks needs.
  return nest_.mask_bytes == 8 ? mask_type() + "(" + comparison + ")" : comparison;
}

Operand ExpressionWriter::round_half(Operand value, DType dtype) {
  value.stored.clear();
  return from_storage(to_storage(value, dtype), dtype, value.vector);
}

Operand ExpressionWriter::cast(const Operand& value, DType from, DType to) {
  if (from == to) return value;
  const bool vector = value.vector;
  const auto convert = [&](const std::string& element, const std::string& text) {
    if (!vector) return element + "(" + text + ")";
    prelude_.need("convert");
    return "convert<" + prelude_.vector(element, nest_.lanes) + ">(" + text + ")";
  };
  if (graph::is_half(to)) {
    const Operand single = graph::is_half(from) ? value : cast(value, from, DType::kFloat32);
    return round_half(single, to);
  }
  if (to == DType::kBool) {
    if (!vector) return {paren(value) + " != 0", false, false};
    return {to_mask("(" + paren(value) + " != 0)", from), true, true};
  }
  const std::string target = scalar_type(to);
  if (from == DType::kBool) {
    const std::string bit = vector ? "(" + paren(value) + " & 1)" : value.text;
    if (vector && target == "i" + std::to_string(8 * nest_.mask_bytes)) return call(bit, true);
    return call(convert(target, bit), vector);
  }
  if (scalar_type(from) == target) return value;
  // The hardware converts between float and int of 4 or 8 bytes.
  if (graph::is_float(from) && is_small(to))
    return call(convert(target, convert(from == DType::kFloat64 ? "i64" : "i32", value.text)),
                vector);
  if (is_small(from) && graph::is_float(to))
    return call(convert(target, convert("i32", value.text)), vector);
  return call(convert(target, value.text), vector);
}

Operand ExpressionWriter::build_unary(ExprRef expr, const Operand& a, DType dtype) {
  const bool vector = a.vector;
  const bool is_float = graph::is_float(dtype);
  // Small scalars: arithmetic happens in int.
  const auto wrapped = [&](const std::string& text, bool atom) -> Operand {
    if (!vector && is_small(dtype)) return call(scalar_type(dtype) + "(" + text + ")", false);
    return {text, vector, atom};
  };
  switch (expr->kind) {
    case ExprKind::kNeg:
      return wrapped("-" + paren(a), false);
    case ExprKind::kAbs:
      if (is_float) {
        // Clears the sign bit, of NaN and -0 too.
        if (!vector)
          return call(
              (dtype == DType::kFloat64 ? "__builtin_fabs(" : "__builtin_fabsf(") + a.text + ")",
              false);
        const std::string bits = "i" + std::to_string(8 * compute_bytes(dtype));
        const std::string ints = prelude_.vector(bits, nest_.lanes);
        prelude_.need("bits");
        return call("bits<" + type_of(dtype, true) + ">(bits<" + ints + ">(" + a.text + ") & " +
                        (compute_bytes(dtype) == 8 ? "0x7fffffffffffffff" : "0x7fffffff") + ")",
                    true);
      }
      if (dtype == DType::kBool || dtype == DType::kUInt8) return a;
      prelude_.need("magnitude");
      return call("magnitude(" + (vector ? a.text : scalar_type(dtype) + "(" + a.text + ")") + ")",
                  vector);
    case ExprKind::kBitNot:
      if (dtype == DType::kBool) return {(vector ? "~" : "!") + paren(a), vector, false};
      return wrapped("~" + paren(a), false);
    case ExprKind::kNot:
      if (dtype == DType::kBool) return {(vector ? "~" : "!") + paren(a), vector, false};
      if (!vector) return {paren(a) + " == 0", false, false};
      return call(to_mask("(" + paren(a) + " == 0)", dtype), true);
    case ExprKind::kIsNan:
      if (!is_float) return {vector ? mask_type() + "{}" : "false", vector, true};
      if (!vector) return call("__builtin_isnan(" + a.text + ")", false);
      return call(to_mask("(" + paren(a) + " != " + paren(a) + ")", dtype), true);
    case ExprKind::kIsInf: {
      if (!is_float) return {vector ? mask_type() + "{}" : "false", vector, true};
      const std::string inf = literal(dtype, std::numeric_limits<double>::infinity());
      const std::string low = literal(dtype, -std::numeric_limits<double>::infinity());
      if (!vector)
        return {paren(a) + " == " + inf + " || " + paren(a) + " == " + low, false, false};
      return call(
          to_mask("((" + paren(a) + " == " + inf + ") | (" + paren(a) + " == " + low + "))", dtype),
          true);
    }
    case ExprKind::kFloor:
    case ExprKind::kCeil:
    case ExprKind::kTrunc:
    case ExprKind::kRound:
      if (!is_float) return a;
      break;
    default:
      break;
  }
  BRAZE_CHECK(is_float, loop::to_string(expr->kind), " of ", graph::to_string(dtype));
  const std::string function = prelude_.math(expr->kind, dtype, vector ? nest_.lanes : 1);
  Operand result = call(function + "(" + a.text + ")", vector);
  return graph::is_half(dtype) ? round_half(result, dtype) : result;
}

Operand ExpressionWriter::build_comparison(ExprRef expr, const Operand& a, const Operand& b,
                                           DType dtype) {
  const bool vector = a.vector || b.vector;
  const std::string x = mixed(a, dtype, vector), y = mixed(b, dtype, vector);
  if (dtype == DType::kBool && vector) {
    switch (expr->kind) {
      case ExprKind::kEq:
        return {"~(" + x + " ^ " + y + ")", true, false};
      case ExprKind::kNe:
        return {x + " ^ " + y, true, false};
      case ExprKind::kLt:
        return {"~" + x + " & " + y, true, false};
      default:
        return {"~" + x + " | " + y, true, false};
    }
  }
  const std::string text = x + std::string(infix(expr->kind)) + y;
  if (!vector) return {text, false, false};
  return call(to_mask("(" + text + ")", dtype), true);
}

Operand ExpressionWriter::build_integer_division(ExprRef expr, const Operand& a, const Operand& b,
                                                 DType dtype) {
  const bool vector = a.vector || b.vector;
  std::string name;
  switch (expr->kind) {
    case ExprKind::kFloorDiv:
      name = "floordiv";
      break;
    case ExprKind::kTruncDiv:
      name = "truncdiv";
      break;
    case ExprKind::kMod:
      name = "mod";
      break;
    case ExprKind::kFmod:
      name = "remainder_of";
      break;
    case ExprKind::kPow:
      name = "power";
      break;
    case ExprKind::kShl:
      name = "shl";
      break;
    case ExprKind::kShr:
      name = "shr";
      break;
    default:
      BRAZE_UNREACHABLE("integer ", loop::to_string(expr->kind));
  }
  const std::string type = scalar_type(dtype);
  // A shift by a number less than the width is one operator on vectors.
  const ExprRef by = expr->args[1];
  if (expr->kind == ExprKind::kShr && a.vector && by->is_constant() && by->ival >= 0 &&
      by->ival < 8 * compute_bytes(dtype))
    return {paren(a) + " >> " + std::to_string(by->ival), true, false};
  prelude_.need(name);
  if (!vector) return call(name + "<" + type + ">(" + a.text + ", " + b.text + ")", false);
  prelude_.need("lanes");
  return call("lanes([](" + type + " x, " + type + " y) { return " + name + "(x, y); }, " +
                  as_vector(a, dtype) + ", " + as_vector(b, dtype) + ")",
              true);
}

Operand ExpressionWriter::build_binary(ExprRef expr, const Operand& a, const Operand& b,
                                       DType dtype) {
  const bool vector = a.vector || b.vector;
  const bool is_float = graph::is_float(dtype);
  const auto finish = [&](Operand result) {
    return graph::is_half(dtype) ? round_half(std::move(result), dtype) : result;
  };
  switch (expr->kind) {
    case ExprKind::kAdd:
    case ExprKind::kSub:
    case ExprKind::kMul:
    case ExprKind::kDiv:
    case ExprKind::kAnd:
    case ExprKind::kOr:
    case ExprKind::kXor: {
      std::string_view op = infix(expr->kind);
      if (dtype == DType::kBool) {
        if (expr->kind == ExprKind::kAdd) op = " | ";
        if (expr->kind == ExprKind::kMul) op = " & ";
        if (expr->kind == ExprKind::kSub) op = " ^ ";
      }
      BRAZE_CHECK(expr->kind != ExprKind::kDiv || is_float, "div of integers");
      const std::string text = mixed(a, dtype, vector) + std::string(op) + mixed(b, dtype, vector);
      if (!vector && is_small(dtype)) return call(scalar_type(dtype) + "(" + text + ")", false);
      return finish({text, vector, false});
    }
    case ExprKind::kEq:
    case ExprKind::kNe:
    case ExprKind::kLt:
    case ExprKind::kLe:
      return build_comparison(expr, a, b, dtype);
    case ExprKind::kMin:
    case ExprKind::kMax: {
      const bool max = expr->kind == ExprKind::kMax;
      if (dtype == DType::kBool)
        return {mixed(a, dtype, vector) + (max ? " | " : " & ") + mixed(b, dtype, vector), vector,
                false};
      // A bound that is a number needs no care for NaN.
      for (int i : {0, 1}) {
        const ExprRef bound = expr->args[i];
        const Operand& value = i == 0 ? b : a;
        if (!is_float || !vector || !value.vector || bound->kind != ExprKind::kConst ||
            std::isnan(bound->fval))
          continue;
        const std::string name = max ? "at_least" : "at_most";
        prelude_.need(name);
        return call(name + "(" + value.text + ", " + literal(dtype, bound->fval) + ")", true);
      }
      const std::string name = max ? "maximum" : "minimum";
      prelude_.need(name);
      if (vector)
        return call(name + "(" + type_of(dtype, true) + "(" + as_vector(a, dtype) + "), " +
                        type_of(dtype, true) + "(" + as_vector(b, dtype) + "))",
                    true);
      return call(name + "<" + scalar_type(dtype) + ">(" + a.text + ", " + b.text + ")", false);
    }
    case ExprKind::kShl:
    case ExprKind::kShr:
      return build_integer_division(expr, a, b, dtype);
    case ExprKind::kFloorDiv:
    case ExprKind::kTruncDiv:
    case ExprKind::kMod:
    case ExprKind::kFmod:
    case ExprKind::kPow:
    case ExprKind::kAtan2:
      break;
    default:
      BRAZE_UNREACHABLE("a binary op ", loop::to_string(expr->kind));
  }
  if (!is_float) return build_integer_division(expr, a, b, dtype);
  const int lanes = vector ? nest_.lanes : 1;
  const auto text = [&](const Operand& value) {
    return vector ? as_vector(value, dtype) : value.text;
  };
  if (expr->kind == ExprKind::kTruncDiv)
    return finish(call(prelude_.math(ExprKind::kTrunc, dtype, lanes) + "(" +
                           mixed(a, dtype, vector) + " / " + mixed(b, dtype, vector) + ")",
                       vector));
  if (expr->kind == ExprKind::kPow || expr->kind == ExprKind::kAtan2)
    return finish(call(
        prelude_.math(expr->kind, dtype, lanes) + "(" + text(a) + ", " + text(b) + ")", vector));
  const std::string name = expr->kind == ExprKind::kFloorDiv ? "floordiv_float"
                           : expr->kind == ExprKind::kMod    ? "mod_float"
                                                             : "fmod_float";
  prelude_.need(name);
  const std::string type = scalar_type(dtype);
  if (!vector)
    return finish(
        call(name + "(" + type + "(" + a.text + "), " + type + "(" + b.text + "))", false));
  prelude_.need("lanes");
  return finish(call("lanes([](" + type + " x, " + type + " y) { return " + name + "(x, y); }, " +
                         text(a) + ", " + text(b) + ")",
                     true));
}

}  // namespace braze::codegen::cpp
