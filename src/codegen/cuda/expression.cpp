#include "codegen/cuda/expression.h"

#include <algorithm>

#include "base/error.h"
#include "codegen/cuda/operators.h"

namespace braze::codegen::cuda {

using graph::DType;
using loop::ExprKind;
using loop::ExprRef;

ExpressionWriter::ExpressionWriter(const Nest& nest, std::vector<sym::Int>& sizes)
    : nest_(nest), sizes_(sizes), axis_text_(nest.extent.size(), "0") {}

void ExpressionWriter::open(Level level) { scopes_.push_back({.level = level}); }

std::vector<std::string> ExpressionWriter::close() {
  std::vector<std::string> lines = std::move(scopes_.back().lines);
  scopes_.pop_back();
  return lines;
}

void ExpressionWriter::block(const std::string& header, const std::vector<std::string>& body) {
  line(header + " {");
  for (const std::string& inside : body) line("  " + inside);
  line("}");
}

std::string ExpressionWriter::fresh(const std::string& stem) {
  return stem + std::to_string(names_[stem]++);
}

std::string ExpressionWriter::size(sym::Int value, bool wide) {
  if (value.is_constant())
    return std::to_string(value.constant()) + (value.constant() > INT32_MAX ? "ll" : "");
  const auto known = std::ranges::find(sizes_, value);
  const auto number = known - sizes_.begin();
  if (known == sizes_.end()) sizes_.push_back(value);
  const std::string name = "s" + std::to_string(number);
  return wide ? name : "((i32)" + name + ")";
}

void ExpressionWriter::bind_axis(int axis, const std::string& text) {
  const bool inner = axis >= nest_.outer_count;
  axis_text_[axis] = fresh(inner ? "i" : "o");
  const sym::Int last = nest_.extent[axis] - sym::Int(1);
  const bool wide = last.hint() > INT32_MAX;
  if (!wide && !last.is_constant() && std::ranges::find(nest_.limits, last) == nest_.limits.end())
    nest_.limits.push_back(last);
  const std::string type = wide ? "i64" : "i32";
  line("const " + type + " " + axis_text_[axis] + " = (" + type + ")(" + text + ");");
}

void ExpressionWriter::bind_base(const std::string& text) {
  bind_axis(nest_.vector_axis, text);
  base_text_ = axis_text_[nest_.vector_axis];
}

void ExpressionWriter::bind_result(const loop::Statement& reduction, std::string accumulator) {
  results_[reduction.reduced] = {&reduction, std::move(accumulator)};
}

void ExpressionWriter::note_stored(const loop::Statement& store) {
  stored_[{store.buffer, store.index}] = store.value;
}

bool ExpressionWriter::depends_on_vector(ExprRef expr) {
  return nest_.lanes > 1 && (axes_of_(expr) >> nest_.vector_axis & 1);
}

Level ExpressionWriter::level_of(ExprRef expr) {
  const uint64_t axes = axes_of_(expr);
  if (depends_on_vector(expr)) return at_base_ ? pack_level() : Level::kLanes;
  return axes >> nest_.outer_count ? Level::kWalk : Level::kFunction;
}

const std::string* ExpressionWriter::find(ExprRef expr) {
  const bool base = at_base_ && depends_on_vector(expr);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto& values = base ? scope->at_base : scope->values;
    if (auto known = values.find(expr); known != values.end()) return &known->second;
  }
  return nullptr;
}

void ExpressionWriter::at_level(Level level, const std::function<void()>& body) {
  std::vector<Scope> aside;
  while (scopes_.size() > 1 && scopes_.back().level > level && !scopes_.back().guarded) {
    aside.push_back(std::move(scopes_.back()));
    scopes_.pop_back();
  }
  body();
  while (!aside.empty()) {
    scopes_.push_back(std::move(aside.back()));
    aside.pop_back();
  }
}

std::string ExpressionWriter::emit_at_base(ExprRef index) {
  at_base_ = true;
  std::string text = emit(index);
  at_base_ = false;
  return text;
}

std::string ExpressionWriter::emit(ExprRef expr) {
  switch (expr->kind) {
    case ExprKind::kConst:
      return literal(expr);
    case ExprKind::kAxis:
      return at_base_ && expr->ival == nest_.vector_axis ? base_text_ : axis_text_[expr->ival];
    case ExprKind::kSize:
      return size(expr->size, !is_narrow(expr));
    default:
      break;
  }
  if (const std::string* known = find(expr)) return *known;
  std::string text;
  at_level(level_of(expr), [&] {
    text = build(expr);
    Scope& scope = scopes_.back();
    (at_base_ && depends_on_vector(expr) ? scope.at_base : scope.values).emplace(expr, text);
  });
  return text;
}

bool ExpressionWriter::is_narrow(ExprRef expr) {
  if (expr->dtype != DType::kInt64) return false;
  if (auto known = narrow_.find(expr); known != narrow_.end()) return known->second;
  return narrow_[expr] = cpp::fits_int32(expr, nest_.extent, nest_.limits);
}

std::string ExpressionWriter::type_of(ExprRef expr) {
  return is_narrow(expr) ? "i32" : cuda::type_of(expr->dtype);
}

std::string ExpressionWriter::declare(ExprRef expr, const std::string& text) {
  const std::string name = fresh("t");
  line("const " + type_of(expr) + " " + name + " = " + text + ";");
  return name;
}

std::string ExpressionWriter::build(ExprRef expr) {
  switch (expr->kind) {
    case ExprKind::kReduced: {
      const Result& result = results_.at(expr->ival);
      return declare(expr, result_of(*result.reduction, expr->component, result.accumulator));
    }
    case ExprKind::kLoad:
      return build_load(expr);
    case ExprKind::kMasked:
      return build_masked(expr);
    case ExprKind::kCast:
      return declare(expr, cast(emit(expr->args[0]), expr->args[0]->dtype, expr->dtype));
    case ExprKind::kBitcast:
      return declare(expr,
                     "bits_as<" + cuda::type_of(expr->dtype) + ">(" + emit(expr->args[0]) + ")");
    case ExprKind::kRandom: {
      std::string list;
      for (ExprRef arg : expr->args) list += (list.empty() ? "" : ", ") + emit(arg);
      return declare(expr, "random_word(" + list + ")");
    }
    case ExprKind::kWhere: {
      const std::string condition = emit(expr->args[0]);
      const std::string yes = emit(expr->args[1]), no = emit(expr->args[2]);
      return declare(expr, condition + " ? " + yes + " : " + no);
    }
    default:
      return declare(expr, build_arithmetic(expr));
  }
}

std::string ExpressionWriter::build_arithmetic(ExprRef expr) {
  std::vector<std::string> args;
  for (ExprRef arg : expr->args) args.push_back(emit(arg));
  if (is_narrow(expr)) return build_index(expr, args);
  return operation(expr->kind, expr->args[0]->dtype, "i64", args);
}

// Index arithmetic that fits its type never wraps, so plain operators do.
std::string ExpressionWriter::build_index(ExprRef expr, const std::vector<std::string>& args) {
  const auto infix = [&](const char* op) { return args[0] + op + args[1]; };
  const bool natural =
      expr->args.size() == 2 && expr->args[0]->range.lo >= 0 && expr->args[1]->range.lo > 0;
  switch (expr->kind) {
    case ExprKind::kAdd:
      return infix(" + ");
    case ExprKind::kSub:
      return infix(" - ");
    case ExprKind::kMul:
      return infix(" * ");
    case ExprKind::kFloorDiv:
      if (natural) return "(i32)((u32)" + args[0] + " / (u32)" + args[1] + ")";
      break;
    case ExprKind::kMod:
      if (natural) return "(i32)((u32)" + args[0] + " % (u32)" + args[1] + ")";
      break;
    default:
      break;
  }
  return operation(expr->kind, DType::kInt64, "i32", args);
}

bool ExpressionWriter::is_packed(ExprRef index) const {
  return nest_.lanes > 1 && is_pack(affine_of(index, nest_.extent), nest_.vector_axis, nest_.lanes);
}

std::string ExpressionWriter::pack_of(ExprRef load) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (auto known = scope->packs.find(load); known != scope->packs.end()) return known->second;
  const bool guarded = std::ranges::any_of(scopes_, [](const Scope& s) { return s.guarded; });
  if (guarded || at_base_ || !is_packed(load->args[0])) return "";
  std::string name;
  at_level(pack_level(), [&] {
    const std::string index = emit_at_base(load->args[0]);
    name = fresh("q");
    const std::string buffer = std::to_string(load->ival);
    line("const auto " + name + " = load_pack<" + std::to_string(nest_.lanes) + ">(p" + buffer +
         " + " + index + ", aligned, count);");
    scopes_.back().packs.emplace(load, name);
  });
  use_pack(static_cast<int>(load->ival));
  return name;
}

std::string ExpressionWriter::build_load(ExprRef expr) {
  if (nest_.kernel->params[expr->ival].by_value) return "p" + std::to_string(expr->ival);
  if (auto stored = stored_.find({expr->ival, expr->args[0]}); stored != stored_.end())
    return emit(stored->second);
  const std::string truth = expr->dtype == DType::kBool ? " != 0" : "";
  if (const std::string pack = pack_of(expr); !pack.empty())
    return declare(expr, pack + ".v[v]" + truth);
  const std::string index = emit(expr->args[0]);
  return declare(expr, "p" + std::to_string(expr->ival) + "[" + index + "]" + truth);
}

std::string ExpressionWriter::build_masked(ExprRef expr) {
  const std::string condition = emit(expr->args[0]);
  const std::string other = emit(expr->args[2]);
  const std::string name = fresh("m");
  line(type_of(expr) + " " + name + " = " + other + ";");
  scopes_.push_back({.level = scopes_.back().level, .guarded = true});
  const std::string value = emit(expr->args[1]);
  line(name + " = " + value + ";");
  const std::vector<std::string> body = close();
  block("if (" + condition + ")", body);
  return name;
}

}  // namespace braze::codegen::cuda
