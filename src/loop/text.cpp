#include <charconv>
#include <cmath>

#include "loop/linear_form.h"
#include "loop/program.h"

namespace braze::loop {
namespace {

constexpr int kInlineSize = 24;  // shared index expressions up to this size are not named

bool is_infix(ExprRef e) {
  if (e->dtype != DType::kInt64) return false;
  if (e->kind == ExprKind::kAdd) return true;
  bool by_constant = e->args.size() == 2 && is_size(e->args[1]);
  return by_constant &&
         (e->kind == ExprKind::kMul || e->kind == ExprKind::kFloorDiv || e->kind == ExprKind::kMod);
}

// The shortest digits that give the value back in its dtype.
std::string number_text(double value, DType dtype) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char text[64];
  auto end = dtype == DType::kFloat64
                 ? std::to_chars(text, text + sizeof text, value).ptr
                 : std::to_chars(text, text + sizeof text, static_cast<float>(value)).ptr;
  return {text, end};
}

class Printer {
 public:
  // `outer` axes are printed as o0.., the rest as i0..; negative: all as a0..
  explicit Printer(int outer) : outer_(outer) {}

  void count(ExprRef e) {
    if (++uses_[e] > 1) return;
    for (ExprRef arg : e->args) count(arg);
  }

  // Appends the definitions of shared subexpressions that are not yet printed, and returns the text
  // of the expression.
  std::string print(ExprRef e, std::string& definitions, std::string_view indent,
                    std::string_view end) {
    define(e, definitions, indent, end);
    return text(e);
  }

 private:
  // Nodes in the expression as a tree, saturating; large for what is worth a name anyway.
  int inline_size(ExprRef e) {
    if (e->args.empty()) return 1;
    if (auto known = sizes_.find(e); known != sizes_.end()) return known->second;
    bool plain = is_infix(e) || e->kind == ExprKind::kLoad ||
                 (e->kind == ExprKind::kCast && e->args[0]->kind == ExprKind::kLoad);
    int size = plain ? 1 : 2 * kInlineSize;
    for (ExprRef arg : e->args) size = std::min(size + inline_size(arg), 2 * kInlineSize);
    return sizes_[e] = size;
  }

  void define(ExprRef e, std::string& definitions, std::string_view indent, std::string_view end) {
    if (e->args.empty() || !visited_.emplace(e, true).second) return;
    for (ExprRef arg : e->args) define(arg, definitions, indent, end);
    if (uses_[e] < 2 || inline_size(e) <= kInlineSize) return;
    std::string name = "t" + std::to_string(names_.size());
    definitions += std::string(indent) + name + " = " + text(e) + std::string(end);
    names_[e] = name;
  }

  std::string axis(int64_t number) const {
    if (outer_ < 0) return "a" + std::to_string(number);
    return number < outer_ ? "o" + std::to_string(number) : "i" + std::to_string(number - outer_);
  }

  std::string constant(ExprRef e) const {
    if (e->dtype == DType::kInt64) return std::to_string(e->ival);
    if (e->dtype == DType::kBool) return e->ival ? "true" : "false";
    std::string digits =
        graph::is_float(e->dtype) ? number_text(e->fval, e->dtype) : std::to_string(e->ival);
    return digits + ":" + std::string(graph::to_string(e->dtype));
  }

  std::string infix(ExprRef e) {
    if (e->kind == ExprKind::kAdd) return text(e->args[0]) + " + " + text(e->args[1]);
    ExprRef lhs = e->args[0];
    std::string left = text(lhs);
    if (lhs->kind == ExprKind::kAdd && !names_.contains(lhs)) left = "(" + left + ")";
    const char* sign = e->kind == ExprKind::kMul ? "*" : e->kind == ExprKind::kMod ? "%" : "//";
    return left + sign + text(e->args[1]);
  }

  std::string text(ExprRef e) {
    if (auto named = names_.find(e); named != names_.end()) return named->second;
    if (is_infix(e)) return infix(e);
    if (e->is_constant()) return constant(e);
    if (e->kind == ExprKind::kAxis) return axis(e->ival);
    if (e->kind == ExprKind::kSize) return "{" + sym::to_string(e->size) + "}";
    if (e->kind == ExprKind::kReduced)
      return "r" + std::to_string(e->ival) +
             (e->component ? "." + std::to_string(e->component) : "");
    if (e->kind == ExprKind::kScanned)
      return "r" + std::to_string(e->ival) +
             (e->component == 0   ? ""
              : e->component == 1 ? ".before"
                                  : ".place");
    if (e->kind == ExprKind::kLoad)
      return "load(b" + std::to_string(e->ival) + ", " + text(e->args[0]) + ")";
    std::string dtype(graph::to_string(e->dtype));
    if (e->kind == ExprKind::kCast) return dtype + "(" + text(e->args[0]) + ")";
    if (e->kind == ExprKind::kBitcast) return "bitcast(" + dtype + ", " + text(e->args[0]) + ")";
    std::string out(to_string(e->kind));
    const char* separator = "(";
    for (ExprRef arg : e->args) {
      out += separator + text(arg);
      separator = ", ";
    }
    return out + ")";
  }

  int outer_;
  std::unordered_map<ExprRef, int> uses_, sizes_;
  std::unordered_map<ExprRef, bool> visited_;
  std::unordered_map<ExprRef, std::string> names_;
};

std::string extent_text(sym::Int extent) {
  return extent.is_constant() ? sym::to_string(extent) : "{" + sym::to_string(extent) + "}";
}

std::string axes_text(const char* keyword, char letter, const std::vector<Axis>& axes) {
  if (axes.empty()) return "";
  std::string out = std::string(" ") + keyword + "(";
  for (size_t i = 0; i < axes.size(); ++i) {
    if (i > 0) out += ", ";
    out += letter + std::to_string(i) + " < " + extent_text(axes[i].extent);
  }
  return out + ")";
}

}  // namespace

std::string to_string(ExprRef expr) {
  Printer printer(-1);
  printer.count(expr);
  std::string definitions;
  std::string value = printer.print(expr, definitions, "", "; ");
  return definitions + value;
}

std::string to_string(const Kernel& kernel, bool with_name) {
  std::string out = "kernel " + (with_name ? kernel.name : std::string()) + "(";
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const BufferParam& param = kernel.params[i];
    if (i > 0) out += ", ";
    out += "b" + std::to_string(i) + ": " + std::string(graph::to_string(param.dtype)) +
           (param.written    ? " out"
            : param.by_value ? " value"
                             : " in") +
           (param.aliased ? " aliased" : "");
  }
  out +=
      ")" + axes_text("outer", 'o', kernel.outer) + axes_text("inner", 'i', kernel.inner) + " {\n";
  Printer printer(static_cast<int>(kernel.outer.size()));
  for (const Statement& s : kernel.body) {
    if (s.index) printer.count(s.index);
    printer.count(s.value);
  }
  for (const Statement& s : kernel.body) {
    std::string line;
    switch (s.kind) {
      case Statement::Kind::kReduce:
        line = "  r" + std::to_string(s.reduced) + " = " + std::string(to_string(s.op)) + "(" +
               printer.print(s.value, out, "  ", "\n") + ")";
        break;
      case Statement::Kind::kScan:
        line = "  r" + std::to_string(s.reduced) + " = " + std::string(to_string(s.scan)) + "(";
        if (s.is_recurrence()) line += printer.print(s.initial, out, "  ", "\n") + ", ";
        line += printer.print(s.value, out, "  ", "\n") + ")";
        break;
      case Statement::Kind::kStore:
        line = "  " + std::string(to_string(s.store)) + "(b" + std::to_string(s.buffer) + ", " +
               printer.print(s.index, out, "  ", "\n") + ", ";
        line += printer.print(s.value, out, "  ", "\n") + ")";
        break;
    }
    out += line + (s.inner ? " inner" : "") + (s.unordered ? " unordered" : "") +
           (s.is_part() ? " parts " + std::to_string(s.parts) : "") + "\n";
  }
  return out + "}\n";
}

}  // namespace braze::loop
