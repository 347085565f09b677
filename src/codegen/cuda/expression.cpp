#include "codegen/cuda/expression.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "codegen/cuda/accesses.h"
#include "codegen/cuda/operators.h"
#include "codegen/cuda/reductions.h"
#include "loop/random.h"

namespace braze::codegen::cuda {

using graph::DType;
using loop::ExprKind;
using loop::ExprRef;

namespace {

// Whether a half holds the number, and not as one of its smallest.
bool is_exact_in(DType half, double number) {
  const bool brain = half == DType::kBFloat16;
  int exponent = 0;
  const double digits = std::ldexp(std::frexp(number, &exponent), brain ? 8 : 11);
  if (number == 0) return !std::signbit(number);
  return std::isfinite(number) && digits == std::trunc(digits) &&
         (brain ? exponent > -125 && exponent <= 128 : exponent > -13 && exponent <= 16);
}

}  // namespace

ExpressionWriter::ExpressionWriter(const Nest& nest, std::vector<sym::Int>& sizes)
    : nest_(nest),
      sizes_(sizes),
      axis_text_(nest.extent.size(), "0"),
      // Each lane of columns has results of its own.
      axes_of_(nest.has_packed_columns() ? uint64_t{1} << nest.vector_axis : 0) {}

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
  if (depends_on_vector(expr)) return at_base_ ? pack_level(expr) : Level::kLanes;
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

void ExpressionWriter::at_level(Level level, const std::function<void()>& body, bool unmasked) {
  std::vector<Scope> aside;
  while (scopes_.size() > 1 && (scopes_.back().guarded ? unmasked : scopes_.back().level > level)) {
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
    case ExprKind::kScanned:
      return declare(expr, "(" + type_of(expr) + ")" + scanned_.at(expr->ival) +
                               (expr->component == 2 ? ".place" : ".value"));
    case ExprKind::kLoad:
      return build_load(expr);
    case ExprKind::kMasked:
      return build_masked(expr);
    case ExprKind::kCast:
      if (std::string rounded = build_half(expr); !rounded.empty()) return declare(expr, rounded);
      return declare(expr, cast(emit(expr->args[0]), expr->args[0]->dtype, expr->dtype));
    case ExprKind::kBitcast:
      return declare(expr,
                     "bits_as<" + cuda::type_of(expr->dtype) + ">(" + emit(expr->args[0]) + ")");
    case ExprKind::kRandom:
      return build_random(expr);
    case ExprKind::kCheckIndex:
      return declare(expr, "(" + type_of(expr) + ")check_index(" + emit(expr->args[0]) + ", " +
                               emit(expr->args[1]) + ")");
    case ExprKind::kAfter:
      emit(expr->args[0]);
      return emit(expr->args[1]);
    case ExprKind::kWhere: {
      const std::string condition = emit(expr->args[0]);
      const std::string yes = emit(expr->args[1]), no = emit(expr->args[2]);
      return declare(expr, condition + " ? " + yes + " : " + no);
    }
    default:
      return declare(expr, build_arithmetic(expr));
  }
}

std::string ExpressionWriter::emit_near(ExprRef expr) {
  if (!is_of_distance_from_maximum(nest_, expr) || expr->dtype != DType::kFloat32 || find(expr))
    return emit(expr);
  return "exp_near(" + emit(expr->args[0]) + ")";
}

// What is computed for one rounding to a half takes fewer instructions.
std::string ExpressionWriter::build_half(ExprRef cast) {
  const DType half = cast->dtype;
  const ExprRef value = cast->args[0];
  if (!graph::is_half(half) || value->dtype != DType::kFloat32) return "";
  if (value->kind == ExprKind::kDiv && nest_.shape == Shape::kRows &&
      level_of(value->args[1]) == Level::kFunction && level_of(value) != Level::kFunction) {
    const std::string by = divisor(value->args[1]);
    return cuda::cast("divide(" + emit_near(value->args[0]) + ", " + by + ")", DType::kFloat32,
                      half);
  }
  const char* name = value->kind == ExprKind::kAdd   ? "add_"
                     : value->kind == ExprKind::kSub ? "sub_"
                     : value->kind == ExprKind::kMul ? "mul_"
                                                     : nullptr;
  if (!name) return "";
  const auto is_exact = [&](ExprRef arg) {
    return arg->kind == ExprKind::kCast ? arg->args[0]->dtype == half
                                        : arg->is_constant() && is_exact_in(half, arg->fval);
  };
  if (!std::ranges::all_of(value->args, is_exact)) return "";
  const auto narrow = [&](ExprRef arg) {
    return arg->kind == ExprKind::kCast ? emit(arg->args[0])
                                        : cuda::cast(literal(arg), DType::kFloat32, half);
  };
  const std::string a = narrow(value->args[0]), b = narrow(value->args[1]);
  return name + std::string(graph::to_string(half)) + "(" + a + ", " + b + ")";
}

std::string ExpressionWriter::divisor(ExprRef expr) {
  if (auto known = divisors_.find(expr); known != divisors_.end()) return known->second;
  const std::string name = fresh("by");
  at_level(Level::kFunction, [&] {
    const std::string value = emit(expr);
    line("const Divisor " + name + " = divisor(" + value + ");");
  });
  const bool everywhere = std::ranges::none_of(scopes_, [](const Scope& s) { return s.guarded; });
  if (everywhere) divisors_[expr] = name;
  return name;
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
  if (nest_.shift)
    return shift_of(affine_of(index, nest_.extent), nest_.vector_axis, nest_.outer_count,
                    nest_.lanes) == nest_.shift;
  return nest_.lanes > 1 && is_pack(affine_of(index, nest_.extent), nest_.vector_axis, nest_.lanes);
}

void ExpressionWriter::copy_ahead(ExprRef load, int64_t begin) {
  const std::string lanes = std::to_string(nest_.lanes);
  const std::string index = emit_at_base(load->args[0]);
  line("copy_ahead(slot_of<" + storage_type_of(load->dtype) + ", " + lanes + ">(staged + " +
       std::to_string(begin) + ", slot), p" + std::to_string(load->ival) + " + " + index + ");");
  if (nest_.lanes > 1) use_pack(static_cast<int>(load->ival));
}

std::string ExpressionWriter::staged_pack(ExprRef load) {
  for (const auto& [staged, begin] : nest_.staged)
    if (staged == load)
      return "*slot_of<" + storage_type_of(load->dtype) + ", " + std::to_string(nest_.lanes) +
             ">(staged + " + std::to_string(begin) + ", slot)";
  return "";
}

std::string ExpressionWriter::pack_of(ExprRef load) {
  // What must hold for the load to be made, of all lanes alike.
  std::string condition;
  Level level = pack_level(load);
  for (const Scope& scope : scopes_) {
    if (!scope.guarded) continue;
    if (scope.pack_guard.empty()) return "";
    level = std::max(level, scope.guard_level);
    condition += (condition.empty() ? "" : " && ") + scope.pack_guard;
  }
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    for (const std::string& guard : {condition, std::string()})
      if (auto known = scope->packs.find({load, guard}); known != scope->packs.end())
        return known->second;
  if (at_base_ || !is_packed(load->args[0])) return "";
  if (!condition.empty() && !is_of_axes(load->args[0])) return "";
  std::string name;
  at_level(
      level,
      [&] {
        const std::string lanes = std::to_string(nest_.lanes);
        std::string loaded = staged_pack(load);
        if (loaded.empty())
          loaded = "load_pack<" + lanes + ">(p" + std::to_string(load->ival) + " + " +
                   emit_at_base(load->args[0]) + (nest_.has_tail ? ", count)" : ")");
        name = fresh("q");
        const std::string type = "Pack<" + storage_type_of(load->dtype) + ", " + lanes + ">";
        line("const " + type + " " + name + " = " +
             (condition.empty() ? loaded : condition + " ? " + loaded + " : " + type + "{}") + ";");
        scopes_.back().packs.emplace(std::pair(load, condition), name);
      },
      /*unmasked=*/true);
  use_pack(static_cast<int>(load->ival));
  return name;
}

// Whether the truth of a condition on the axes is the same for all lanes of a pack: it compares
// places along the axis of packs with ends of packs, or does not name that axis.
bool ExpressionWriter::is_same_in_pack(ExprRef condition) {
  if (!depends_on_vector(condition)) return true;
  if (nest_.shift) return false;
  const ExprKind kind = condition->kind;
  if (kind == ExprKind::kAnd || kind == ExprKind::kOr)
    return std::ranges::all_of(condition->args, [&](ExprRef arg) { return is_same_in_pack(arg); });
  const bool less = kind == ExprKind::kLt, at_most = kind == ExprKind::kLe;
  if ((!less && !at_most) || condition->args[0]->dtype != DType::kInt64) return false;
  // `at < end` and `end <= at`, where `at - end` is a whole number of packs for the first lane.
  const Affine at = affine_of(condition->args[less ? 0 : 1], nest_.extent);
  const Affine end = affine_of(condition->args[less ? 1 : 0], nest_.extent);
  return is_pack(at, nest_.vector_axis, nest_.lanes) &&
         end.stride(nest_.vector_axis) == sym::Int(0) && is_whole(end, nest_.lanes);
}

std::string ExpressionWriter::build_load(ExprRef expr) {
  if (nest_.kernel->params[expr->ival].by_value) return "p" + std::to_string(expr->ival);
  if (auto stored = stored_.find({expr->ival, expr->args[0]}); stored != stored_.end())
    return emit(stored->second);
  const std::string truth = expr->dtype == DType::kBool ? " != 0" : "";
  if (const std::string pack = pack_of(expr); !pack.empty())
    return declare(expr, pack + ".v[v]" + truth);
  if (const std::string pack = nest_.lanes == 1 ? staged_pack(expr) : ""; !pack.empty())
    return declare(expr, "(" + pack + ").v[0]" + truth);
  const std::string index = emit(expr->args[0]);
  return declare(expr, "p" + std::to_string(expr->ival) + "[" + index + "]" + truth);
}

// Whether the lanes of a pack take the words of counters in order, each time four of one.
bool ExpressionWriter::shares_counters(ExprRef random) {
  const ExprRef element = loop::element_of_mask(random);
  if (!element || at_base_ || !depends_on_vector(random) || nest_.lanes % 4 != 0 || nest_.shift)
    return false;
  // Not where some lanes of a pack are left out.
  if (std::ranges::any_of(
          scopes_, [](const Scope& scope) { return scope.guarded && scope.pack_guard.empty(); }))
    return false;
  return is_pack(affine_of(element, nest_.extent), nest_.vector_axis, 4);
}

std::string ExpressionWriter::build_random(ExprRef expr) {
  std::vector<std::string> args;
  for (ExprRef arg : expr->args) args.push_back(emit(arg));
  const std::string counter = args[0] + ", " + args[1] + ", " + args[2];
  if (!shares_counters(expr)) return declare(expr, "random_word(" + counter + ", " + args[3] + ")");
  std::string words;
  at_level(
      pack_level(expr),
      [&] {
        words = fresh("w");
        line("Words " + words + ";");
      },
      /*unmasked=*/true);
  line("if (v % 4 == 0) " + words + " = random_words(" + counter + ");");
  return declare(expr, words + ".w[v % 4]");
}

std::string ExpressionWriter::build_masked(ExprRef expr) {
  std::string pack_guard;
  const Level guard_level = pack_level(expr->args[0]);
  if (nest_.lanes > 1 && !at_base_ && is_of_axes(expr->args[0]) && is_same_in_pack(expr->args[0]))
    at_level(
        guard_level, [&] { pack_guard = emit_at_base(expr->args[0]); }, /*unmasked=*/true);
  const std::string condition = pack_guard.empty() ? emit(expr->args[0]) : pack_guard;
  const std::string other = emit(expr->args[2]);
  const std::string name = fresh("m");
  line(type_of(expr) + " " + name + " = " + other + ";");
  scopes_.push_back({.level = scopes_.back().level,
                     .guarded = true,
                     .pack_guard = pack_guard,
                     .guard_level = guard_level});
  const std::string value = emit(expr->args[1]);
  line(name + " = " + value + ";");
  const std::vector<std::string> body = close();
  block("if (" + condition + ")", body);
  return name;
}

}  // namespace braze::codegen::cuda
