#include "codegen/triton/expression.h"

#include <algorithm>

#include "base/error.h"

namespace braze::codegen::triton {

using cuda::Affine;
using graph::DType;
using loop::ExprKind;
using loop::ExprRef;

ExpressionWriter::ExpressionWriter(const cuda::Nest& nest, const Tile& tile,
                                   std::vector<sym::Int>& sizes, Helpers& helpers)
    : nest_(nest), tile_(tile), sizes_(sizes), helpers_(helpers), blocks_(1) {}

std::vector<std::string> ExpressionWriter::close() {
  std::vector<std::string> lines = std::move(blocks_.back().lines);
  blocks_.pop_back();
  return lines;
}

void ExpressionWriter::bind_points(int begin, int end, const std::string& name, bool wide) {
  blocks_.back().points.push_back({begin, end, name, wide});
}

std::string ExpressionWriter::mask_of(uint8_t lanes) const {
  std::string text;
  for (const Block& block : blocks_)
    for (const Mask& mask : block.masks)
      if ((mask.lanes & ~lanes) == 0) text += (text.empty() ? "" : " & ") + mask.text;
  return text;
}

uint8_t ExpressionWriter::lanes_of(ExprRef expr) {
  if (expr->kind == ExprKind::kReduced)
    return tile_.form == Form::kRows && tile_.outer == 1 ? kNoLanes : kOuterLanes;
  if (expr->kind == ExprKind::kAxis) {
    const int axis = static_cast<int>(expr->ival);
    switch (tile_.form) {
      case Form::kLine:
        return kOuterLanes;
      case Form::kSquare:
        return axis == nest_.tile.axis   ? kOuterLanes
               : axis == nest_.tile.last ? kInnerLanes
                                         : kNoLanes;
      case Form::kRows:
      case Form::kColumns:
        break;
    }
    if (axis >= nest_.outer_count) return kInnerLanes;
    return tile_.is_row() ? kNoLanes : kOuterLanes;
  }
  if (const auto known = lanes_.find(expr); known != lanes_.end()) return known->second;
  uint8_t lanes = kNoLanes;
  for (ExprRef arg : expr->args) lanes |= lanes_of(arg);
  if (expr->kind == ExprKind::kLoad)
    if (const auto stored = stored_.find({expr->ival, expr->args[0]}); stored != stored_.end())
      lanes |= lanes_of(stored->second);
  return lanes_[expr] = lanes;
}

bool ExpressionWriter::touches_memory(ExprRef expr) {
  if (expr->kind == ExprKind::kLoad || expr->kind == ExprKind::kCheckIndex) return true;
  if (const auto known = touches_.find(expr); known != touches_.end()) return known->second;
  return touches_[expr] =
             std::ranges::any_of(expr->args, [&](ExprRef arg) { return touches_memory(arg); });
}

bool ExpressionWriter::is_narrow(ExprRef expr) {
  if (expr->dtype != DType::kInt64) return false;
  if (const auto known = narrow_.find(expr); known != narrow_.end()) return known->second;
  return narrow_[expr] = codegen::cpp::fits_int32(expr, nest_.extent, nest_.limits);
}

bool ExpressionWriter::is_wide(sym::Int count) const {
  if (count.hint() > INT32_MAX) return true;
  if (!count.is_constant() && std::ranges::find(nest_.limits, count) == nest_.limits.end())
    nest_.limits.push_back(count);
  return false;
}

std::string ExpressionWriter::size(sym::Int value, bool wide) {
  if (value.is_constant()) return std::to_string(value.constant());
  const auto known = std::ranges::find(sizes_, value);
  const auto number = static_cast<size_t>(known - sizes_.begin());
  if (known == sizes_.end()) sizes_.push_back(value);
  const std::string name = "s" + std::to_string(number);
  if (wide) return name;
  std::string& narrow = narrow_sizes_[number];
  if (narrow.empty()) {
    narrow = "n" + std::to_string(number);
    in_front([&] { line(narrow + " = " + name + ".to(tl.int32)"); });
  }
  return narrow;
}

void ExpressionWriter::in_front(const std::function<void()>& body) {
  if (blocks_.size() == 1) return body();
  Block loop = std::move(blocks_.back());
  blocks_.pop_back();
  body();
  blocks_.push_back(std::move(loop));
}

const std::string* ExpressionWriter::find(ExprRef expr) const {
  for (auto guard = guards_.rbegin(); guard != guards_.rend(); ++guard)
    if (const auto known = guard->values.find(expr); known != guard->values.end())
      return &known->second;
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block)
    if (const auto known = block->values.find(expr); known != block->values.end())
      return &known->second;
  return nullptr;
}

const ExpressionWriter::Points* ExpressionWriter::points_of(int axis) const {
  for (const Block& block : blocks_)
    for (const Points& points : block.points)
      if (points.begin <= axis && axis < points.end) return &points;
  return nullptr;
}

std::string ExpressionWriter::axis(int axis) {
  for (const Block& block : blocks_)
    if (const auto known = block.axes.find(axis); known != block.axes.end()) return known->second;
  if (codegen::cpp::is_trivial(nest_.extent[axis])) return "0";
  const Points* points = points_of(axis);
  BRAZE_CHECK(points, "axis ", axis, " has no points");
  sym::Int behind = 1;
  bool first = true, last = true;
  for (int other = points->begin; other < points->end; ++other) {
    if (other == axis || codegen::cpp::is_trivial(nest_.extent[other])) continue;
    if (other < axis) first = false;
    if (other > axis) last = false, behind = behind * nest_.extent[other];
  }
  const bool wide = points->wide;
  if (first && last) return points->name;
  std::string name;
  const auto bind = [&] {
    std::string text = points->name;
    if (!last) text += " // " + size(behind, wide);
    if (!first) text += " % " + size(nest_.extent[axis], wide);
    if (wide && !is_wide(nest_.extent[axis])) text = "(" + text + ").to(tl.int32)";
    name = fresh(axis < nest_.outer_count ? "o" : "i");
    line(name + " = " + text);
    blocks_.back().axes[axis] = name;
  };
  if (axis < nest_.outer_count)
    in_front(bind);
  else
    bind();
  return name;
}

// Along axes whose points have one name, which lie as their numbers do, the number is enough.
std::string ExpressionWriter::index(ExprRef expr) {
  const Affine affine = codegen::cpp::affine_of(expr, nest_.extent);
  const bool narrow = is_narrow(expr);
  if (!affine.terms.empty()) return emit(expr);
  std::string text;
  const auto add = [&](const std::string& name, bool wide, sym::Int stride) {
    const std::string factor = !narrow && !wide ? name + ".to(tl.int64)" : name;
    text += (text.empty() ? "" : " + ") + factor;
    if (stride != sym::Int(1)) text += " * " + size(stride, !narrow);
  };
  const auto count = static_cast<int>(nest_.extent.size());
  for (int axis = 0; axis < count;) {
    const Points* points = points_of(axis);
    const int end = points ? points->end : axis + 1;
    sym::Int behind = 1, last = 0;
    bool dense = points != nullptr, none = true;
    for (int other = end; other-- > axis;) {
      if (codegen::cpp::is_trivial(nest_.extent[other])) continue;
      const sym::Int stride = affine.stride(other);
      if (behind == sym::Int(1)) last = stride;
      if (stride != last * behind) dense = false;
      if (stride != sym::Int(0)) none = false;
      behind = behind * nest_.extent[other];
    }
    if (!none && dense) {
      add(points->name, points->wide, last);
    } else if (!none) {
      for (int other = axis; other < end; ++other)
        if (affine.stride(other) != sym::Int(0) && !codegen::cpp::is_trivial(nest_.extent[other]))
          add(this->axis(other), is_wide(nest_.extent[other]), affine.stride(other));
    }
    axis = end;
  }
  if (text.empty()) return size(affine.constant, !narrow);
  if (!affine.constant.is_constant())
    text += " + " + size(affine.constant, !narrow);
  else if (const int64_t more = affine.constant.constant(); more != 0)
    text += more < 0 ? " - " + std::to_string(-more) : " + " + std::to_string(more);
  return text;
}

// A value of fewer lanes with those it lacks.
std::string ExpressionWriter::widened(const std::string& text, uint8_t from, uint8_t to) const {
  std::string wide = text;
  for (const Block& block : blocks_)
    for (const Points& points : block.points) {
      const bool inner = tile_.form == Form::kSquare ? points.begin == nest_.tile.last
                                                     : points.begin >= nest_.outer_count;
      const uint8_t lanes = inner ? kInnerLanes : tile_.is_row() ? kNoLanes : kOuterLanes;
      if (lanes & to & ~from) wide += " + " + points.name + " * 0";
    }
  return wide;
}

bool ExpressionWriter::is_number(ExprRef expr) const {
  if (!expr->is_constant()) return false;
  return expr->dtype == DType::kFloat32 || graph::is_integral(expr->dtype, false);
}

std::string ExpressionWriter::emit(ExprRef expr) {
  switch (expr->kind) {
    case ExprKind::kConst:
      return literal(expr);
    case ExprKind::kAxis:
      return axis(static_cast<int>(expr->ival));
    case ExprKind::kSize:
      return size(expr->size, !is_narrow(expr));
    default:
      break;
  }
  if (const std::string* known = find(expr)) return *known;
  const bool guarded = !guards_.empty() && touches_memory(expr);
  std::string text;
  const auto build_here = [&] {
    text = build(expr);
    (guarded ? guards_.back().values : blocks_.back().values)[expr] = text;
  };
  if (guarded || stays(expr))
    build_here();
  else
    in_front(build_here);
  return text;
}

std::string ExpressionWriter::declare(const std::string& text) {
  const std::string name = fresh("t");
  line(name + " = " + text);
  return name;
}

std::string ExpressionWriter::build(ExprRef expr) {
  switch (expr->kind) {
    case ExprKind::kReduced:
      return results_.at({expr->ival, expr->component});
    case ExprKind::kLoad:
      return build_load(expr);
    case ExprKind::kMasked: {
      const std::string condition = emit(expr->args[0]);
      guards_.push_back({.mask = {condition, lanes_of(expr->args[0])}, .values = {}});
      const std::string value = choice_operand(expr->args[1], expr->args[2]->is_constant());
      guards_.pop_back();
      return build_choice(condition, expr->args[1], value, expr->args[2]);
    }
    case ExprKind::kWhere: {
      const std::string condition = emit(expr->args[0]);
      return build_choice(condition, expr->args[1],
                          choice_operand(expr->args[1], expr->args[2]->is_constant()),
                          expr->args[2]);
    }
    case ExprKind::kCast:
      if (std::string rounded = build_half_quotient(expr); !rounded.empty())
        return declare(rounded);
      return declare(cast(expr->args[0]->is_constant() ? typed(expr->args[0]) : emit(expr->args[0]),
                          expr->args[0]->dtype, expr->dtype));
    case ExprKind::kBitcast: {
      const bool narrow = is_narrow(expr->args[0]);
      return declare(emit(expr->args[0]) + (narrow ? ".to(tl.int64)" : "") + ".to(" +
                     type_of(expr->dtype) + ", bitcast=True)");
    }
    case ExprKind::kCheckIndex:
      return build_check(expr);
    case ExprKind::kAfter:
      emit(expr->args[0]);
      return emit(expr->args[1]);
    default:
      return declare(build_arithmetic(expr));
  }
}

// A number of Python's has the type of the other value, if that is one of a dtype that they default
// to; two numbers have none.
std::string ExpressionWriter::choice_operand(ExprRef expr, bool alone) {
  const bool small = graph::size_of(expr->dtype) < 4;
  return is_number(expr) && (alone || small) ? typed(expr) : emit(expr);
}

std::string ExpressionWriter::build_choice(const std::string& condition, ExprRef yes,
                                           const std::string& yes_text, ExprRef no) {
  const std::string no_text = choice_operand(no, yes->is_constant());
  return declare("tl.where(" + condition + ", " + yes_text + ", " + no_text + ")");
}

std::string ExpressionWriter::build_check(ExprRef expr) {
  asserts_ = true;
  const std::string index = emit(expr->args[0]), end = emit(expr->args[1]);
  std::string mask = mask_of(kOuterLanes | kInnerLanes);
  for (const Guard& guard : guards_) mask += (mask.empty() ? "" : " & ") + guard.mask.text;
  line("tl.device_assert((" + index + " >= 0) & (" + index + " < " + end +
       "), \"index out of range\"" + (mask.empty() ? ")" : ", mask=" + mask + ")"));
  return index;
}

std::string ExpressionWriter::build_load(ExprRef expr) {
  const std::string parameter = "p" + std::to_string(expr->ival);
  if (nest_.kernel->params[expr->ival].by_value) return parameter;
  if (const auto stored = stored_.find({expr->ival, expr->args[0]}); stored != stored_.end())
    return emit(stored->second);
  std::string place = index(expr->args[0]);
  uint8_t lanes = lanes_of(expr->args[0]);
  uint8_t guarded = lanes;
  for (const Guard& guard : guards_) guarded |= guard.mask.lanes;
  place = widened(place, lanes, guarded);
  std::string mask = mask_of(guarded);
  for (const Guard& guard : guards_) mask += (mask.empty() ? "" : " & ") + guard.mask.text;
  const std::string loaded =
      "tl.load(" + parameter + " + " + place + (mask.empty() ? ")" : ", mask=" + mask + ")");
  return declare(expr->dtype == DType::kBool ? loaded + " != 0" : loaded);
}

// What is divided by a number of its row, for one rounding to a half, takes fewer instructions.
std::string ExpressionWriter::build_half_quotient(ExprRef cast) {
  const ExprRef value = cast->args[0];
  if (!graph::is_half(cast->dtype) || value->dtype != DType::kFloat32 ||
      value->kind != ExprKind::kDiv || tile_.form != Form::kRows || !is_inner(value) ||
      is_inner(value->args[1]) || !guards_.empty())
    return "";
  const std::string dividend = emit(value->args[0]);
  auto& [scale, reciprocal] = divisors_[value->args[1]];
  if (scale.empty())
    in_front([&] {
      const std::string by =
          value->args[1]->is_constant() ? typed(value->args[1]) : emit(value->args[1]);
      scale = fresh("scale");
      reciprocal = fresh("reciprocal");
      helpers_.insert("divisor");
      line(scale + ", " + reciprocal + " = divisor(" + by + ")");
    });
  return "(" + dividend + " * " + scale + " * " + reciprocal + ").to(" + type_of(cast->dtype) + ")";
}

std::string ExpressionWriter::build_arithmetic(ExprRef expr) {
  // Of numbers of Python's alone nothing would have a dtype.
  const bool constant = std::ranges::all_of(expr->args, [](ExprRef a) { return a->is_constant(); });
  std::vector<Operand> args;
  for (ExprRef arg : expr->args)
    args.push_back(constant ? Operand{typed(arg)} : Operand{emit(arg), is_number(arg)});
  const DType operand = expr->args[0]->dtype;
  const bool wide =
      operand == DType::kInt64 && !loop::is_comparison(expr->kind) && !is_narrow(expr);
  // Quotients of what is not negative are the same, however they are rounded.
  const bool divides = expr->kind == ExprKind::kFloorDiv || expr->kind == ExprKind::kMod;
  if (divides && operand == DType::kInt64 && expr->args[0]->range.lo >= 0 &&
      expr->args[1]->range.lo > 0) {
    for (Operand& arg : args)
      if (wide && !arg.is_number) arg.text += ".to(tl.int64)";
    return args[0].text + (expr->kind == ExprKind::kMod ? " % " : " // ") + args[1].text;
  }
  return operation(expr->kind, operand, wide, args, helpers_);
}

void ExpressionWriter::store(const loop::Statement& statement) {
  const std::string value = emit(statement.value);
  const uint8_t lanes = lanes_of(statement.index);
  const uint8_t all = lanes | lanes_of(statement.value);
  const std::string place = widened(index(statement.index), lanes, all);
  const std::string mask = mask_of(all);
  line("tl.store(p" + std::to_string(statement.buffer) + " + " + place + ", " + value +
       (mask.empty() ? ")" : ", mask=" + mask + ")"));
}

}  // namespace braze::codegen::triton
