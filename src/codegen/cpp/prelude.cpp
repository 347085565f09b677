#include "codegen/cpp/prelude.h"

#include <algorithm>

#include "base/error.h"
#include "codegen/cpp/helpers.h"
#include "codegen/cpp/vector_math.h"

namespace braze::codegen::cpp {

using graph::DType;
using loop::ExprKind;

namespace {

std::string suffix_of(std::string_view element, int lanes) {
  return lanes == 1 ? std::string(element) : std::string(element) + "x" + std::to_string(lanes);
}

// Fills in the placeholders that MathFunction describes.
std::string substitute(std::string_view text, std::string_view element, int lanes) {
  const std::string width(element.substr(1));
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$' || i + 1 == text.size()) {
      result += text[i];
      continue;
    }
    switch (text[++i]) {
      case 'F':
      case 'N':
        result += suffix_of(element, lanes);
        break;
      case 'I':
        result += suffix_of("i" + width, lanes);
        break;
      case 'U':
        result += suffix_of("u" + width, lanes);
        break;
      case 'H':
        result += suffix_of("f32", lanes / 2);
        break;
      case 'D':
      case 'M':
        result += suffix_of("f64", lanes / 2);
        break;
      case 'L':
        result += std::to_string(lanes);
        break;
      default:
        BRAZE_UNREACHABLE("placeholder $", text[i]);
    }
  }
  return result;
}

int bytes_of(std::string_view element) { return std::stoi(std::string(element.substr(1))) / 8; }

bool is_builtin(ExprKind kind) {
  return kind == ExprKind::kSqrt || kind == ExprKind::kFloor || kind == ExprKind::kCeil ||
         kind == ExprKind::kTrunc || kind == ExprKind::kRound;
}

// Scalar functions: libm's, or a line of our own.
std::string libm_name(ExprKind kind, DType dtype) {
  const std::string suffix = dtype == DType::kFloat64 ? "" : "f";
  if (kind == ExprKind::kRound) return "__builtin_rint" + suffix;
  const std::string name{loop::to_string(kind)};
  return is_builtin(kind) ? "__builtin_" + name + suffix : name + suffix;
}

}  // namespace

std::string scalar_type(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "bool";
    case DType::kUInt8:
      return "u8";
    case DType::kInt8:
      return "i8";
    case DType::kInt16:
      return "i16";
    case DType::kInt32:
      return "i32";
    case DType::kInt64:
      return "i64";
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
      return "f32";
    case DType::kFloat64:
      return "f64";
    case DType::kComplex64:
    case DType::kComplex128:
      break;
  }
  BRAZE_UNREACHABLE("a kernel of dtype ", graph::to_string(dtype));
}

std::string storage_type(DType dtype) {
  if (dtype == DType::kBool) return "u8";
  if (dtype == DType::kFloat16 || dtype == DType::kBFloat16) return "u16";
  return scalar_type(dtype);
}

std::string Prelude::vector(std::string_view element, int lanes) {
  if (lanes == 1) return std::string(element);
  std::string name = std::string(element) + "x" + std::to_string(lanes);
  if (known_.insert(name).second)
    vectors_ += "typedef " + std::string(element) + " " + name + " __attribute__((vector_size(" +
                std::to_string(bytes_of(element) * lanes) + ")));\n";
  return name;
}

void Prelude::need(std::string_view helper) {
  if (!known_.insert(std::string(helper)).second) return;
  const auto& table = helper_table();
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Helper& h) { return h.name == helper; });
  BRAZE_CHECK(found != table.end(), "no helper ", helper);
  for (std::string_view other : found->needs) need(other);
  if (helper == "any") vector("i32", 8), vector("i32", 16);
  helpers_ += found->text;
}

std::string Prelude::fold(std::string_view name, std::string_view element, int lanes) {
  const std::string type = vector(element, lanes);
  if (!known_.insert(std::string(name) + " " + type).second) return std::string(name);
  need("half");
  std::string combine;
  if (name == "sum_of" || name == "prod_of") {
    combine = name == "sum_of" ? "a + b" : "a * b";
  } else {
    combine = name == "max_of" ? "maximum(a, b)" : "minimum(a, b)";
    need(name == "max_of" ? "maximum" : "minimum");
  }
  std::string body;
  if (lanes == 2) {
    body = "  const " + std::string(element) + " a = v[0], b = v[1];\n  return " + combine + ";\n";
  } else {
    const std::string half = vector(element, lanes / 2);
    fold(name, element, lanes / 2);
    body = "  const " + half + " a = half<" + half + ">(v, 0), b = upper_half<" + half +
           ">(v);\n  return " + std::string(name) + "(" + half + "(" + combine + "));\n";
  }
  helpers_ += "\nINLINE " + std::string(element) + " " + std::string(name) + "(" + type +
              " v) {\n" + body + "}\n";
  return std::string(name);
}

void Prelude::add_math(std::string_view name, std::string_view element, int lanes) {
  const std::string full = std::string(name) + "_" + vector(element, lanes);
  if (!known_.insert(full).second) return;
  vector("i" + std::string(element.substr(1)), lanes);
  vector("u" + std::string(element.substr(1)), lanes);
  for (const char* helper : {"bits", "convert", "at_least", "at_most", "lanes", "any"})
    need(helper);
  if (is_primitive(name)) {
    helpers_ += primitive(name, element, lanes, isa_);
    return;
  }
  const MathFunction* function = find_math(name);
  BRAZE_CHECK(function, "no vector function ", name);
  for (std::string_view other : function->needs) {
    if (element == "f32" && other.find("core") != std::string_view::npos) {
      need("in_double");
      vector("f32", lanes / 2);
      add_math(other, "f64", lanes / 2);
    } else {
      add_math(other, element, lanes);
    }
  }
  helpers_ += substitute(function->text, element, lanes);
}

std::string Prelude::math(ExprKind kind, DType dtype, int lanes) {
  const std::string element = scalar_type(dtype);
  std::string name{loop::to_string(kind)};
  const std::string full = name + "_" + vector(element, lanes);
  if (lanes >= 4 && element == "f32" && find_math(name)) {
    add_math(name, element, lanes);
    return full;
  }
  if (lanes > 1 && is_primitive(name)) {
    add_math(name, element, lanes);
    return full;
  }
  const bool own = kind == ExprKind::kRsqrt || kind == ExprKind::kSigmoid;
  const bool binary = kind == ExprKind::kPow || kind == ExprKind::kAtan2;
  const std::string scalar = own ? name + "_" + element : libm_name(kind, dtype);
  if (known_.insert(scalar).second) {
    if (kind == ExprKind::kRsqrt) {
      helpers_ += "\nINLINE " + element + " " + scalar + "(" + element + " x) { return 1 / " +
                  libm_name(ExprKind::kSqrt, dtype) + "(x); }\n";
    } else if (kind == ExprKind::kSigmoid) {
      const std::string exp = math(ExprKind::kExp, dtype, 1);
      helpers_ += "\nINLINE " + element + " " + scalar + "(" + element + " x) { return 1 / (1 + " +
                  exp + "(-x)); }\n";
    } else if (!is_builtin(kind)) {
      helpers_ += "\nextern \"C\" " + element + " " + scalar + "(" + element +
                  (binary ? ", " + element : "") + ") noexcept;\n";
    }
  }
  if (lanes == 1) return scalar;
  if (known_.insert(full).second) {
    need("lanes");
    const std::string type = vector(element, lanes);
    helpers_ += "\nINLINE " + type + " " + full + "(" + type + " a" +
                (binary ? ", " + type + " b" : "") + ") {\n  return lanes([](" + element + " x" +
                (binary ? ", " + element + " y" : "") + ") { return " + scalar + "(x" +
                (binary ? ", y" : "") + "); }, a" + (binary ? ", b" : "") + ");\n}\n";
  }
  return full;
}

std::string Prelude::text() const {
  return "#define INLINE static inline __attribute__((always_inline))\n"
         "typedef signed char i8;\ntypedef short i16;\ntypedef int i32;\ntypedef long long i64;\n"
         "typedef unsigned char u8;\ntypedef unsigned short u16;\ntypedef unsigned u32;\n"
         "typedef unsigned long long u64;\ntypedef float f32;\ntypedef double f64;\n" +
         vectors_ + helpers_;
}

}  // namespace braze::codegen::cpp
