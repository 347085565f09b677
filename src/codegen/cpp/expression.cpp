#include "codegen/cpp/expression.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <unordered_set>

#include "base/error.h"

namespace braze::codegen::cpp {

using graph::DType;
using loop::ExprKind;
using loop::ExprRef;
using loop::Statement;

namespace {

constexpr size_t kLongestInline = 60;

Operand lane_of(const Operand& value, DType dtype) {
  const std::string text = value.text + "[l]";
  if (dtype == DType::kBool) return {text + " != 0", false, false};
  // Index arithmetic in lanes may be narrower than i64, in which scalars are computed.
  return {dtype == DType::kInt64 ? "i64(" + text + ")" : text, false, true};
}

}  // namespace

ExpressionWriter::ExpressionWriter(const Nest& nest, Prelude& prelude, std::vector<sym::Int>& sizes)
    : nest_(nest),
      prelude_(prelude),
      axis_text_(nest.extent.size(), "0"),
      axis_depth_(nest.extent.size(), 0),
      reread_(nest.kernel->params.size()),
      sizes_(sizes) {
  BRAZE_CHECK(nest.extent.size() <= 64, "a kernel with ", nest.extent.size(), " axes");
  std::unordered_set<ExprRef> seen;
  std::vector<bool> loaded(reread_.size()), stored(reread_.size());
  std::function<void(ExprRef)> visit = [&](ExprRef expr) {
    ++uses_[expr];
    if (!seen.insert(expr).second) return;
    if (expr->kind == ExprKind::kLoad) loaded[expr->ival] = true;
    for (ExprRef arg : expr->args) visit(arg);
  };
  for (const Statement& s : nest.kernel->body) {
    visit(s.value);
    if (s.index) visit(s.index);
    if (s.is_store()) stored[s.buffer] = true;
  }
  for (size_t b = 0; b < reread_.size(); ++b) reread_[b] = loaded[b] && stored[b];
  open();
}

void ExpressionWriter::open() { scopes_.emplace_back(); }

std::vector<std::string> ExpressionWriter::close() {
  std::vector<std::string> lines = std::move(scopes_.back().lines);
  scopes_.pop_back();
  return lines;
}

void ExpressionWriter::block(const std::string& header, const std::vector<std::string>& body) {
  line(header.empty() ? "{" : header + " {");
  for (const std::string& text : body) line("  " + text);
  line("}");
}

void ExpressionWriter::bind_axis(int axis, std::string text) {
  axis_text_[axis] = std::move(text);
  axis_depth_[axis] = static_cast<int>(scopes_.size()) - 1;
}

void ExpressionWriter::rebind(int axis, Binding to) {
  axis_text_[axis] = std::move(to.text);
  axis_depth_[axis] = to.depth;
}

void ExpressionWriter::bind_reduced(int number, int component, Operand value) {
  reduced_[column_][{number, component}] = {std::move(value), static_cast<int>(scopes_.size()) - 1};
}

void ExpressionWriter::set_tile(std::string row, std::string first) {
  tile_row_ = std::move(row);
  tile_first_ = std::move(first);
  tile_depth_ = static_cast<int>(scopes_.size()) - 2;
}

void ExpressionWriter::set_column(int column) {
  column_ = column;
  if (reduced_.size() <= column_) reduced_.resize(column_ + 1);
}

std::string ExpressionWriter::fresh(const std::string& stem) {
  const int count = names_[stem]++;
  return count == 0 ? stem : stem + "_" + std::to_string(count);
}

std::string ExpressionWriter::size(sym::Int value) {
  if (value.is_constant()) return std::to_string(value.constant());
  size_t number = std::find(sizes_.begin(), sizes_.end(), value) - sizes_.begin();
  const std::string name = "n" + std::to_string(number);
  if (number == sizes_.size()) sizes_.push_back(value);
  if (declared_sizes_.insert(number).second)
    scopes_.front().lines.push_back("const i64 " + name + " = sizes[" + std::to_string(number) +
                                    "];  // " + sym::to_string(value));
  return name;
}

// A mask whose number of lanes is unknown while compiling is computed once a call.
std::string ExpressionWriter::active_mask(const std::string& type) {
  prelude_.need("first_lanes");
  const std::string text = "first_lanes<" + type + ">(" + active_ + ")";
  if (is_active_known()) return text;
  std::string& name = scopes_.front().pointers[text];
  if (name.empty()) {
    name = fresh("first");
    scopes_.front().lines.push_back("const " + type + " " + name + " = " + text + ";");
  }
  return name;
}

std::string ExpressionWriter::mask_type() {
  return prelude_.vector("i" + std::to_string(8 * nest_.mask_bytes), nest_.lanes);
}

std::string ExpressionWriter::type_of(DType dtype, bool vector) {
  if (!vector) return scalar_type(dtype);
  return dtype == DType::kBool ? mask_type() : prelude_.vector(scalar_type(dtype), nest_.lanes);
}

const ExpressionWriter::Facts& ExpressionWriter::facts(ExprRef expr) {
  const auto known = facts_.find(expr);
  if (known != facts_.end()) return known->second;
  Facts result;
  for (ExprRef arg : expr->args) {
    const Facts& f = facts(arg);
    result.axes |= f.axes;
    result.reduced |= f.reduced;
    result.reads |= f.reads;
    result.rereads |= f.rereads;
  }
  if (expr->kind == ExprKind::kAxis && !is_trivial(nest_.extent[expr->ival]))
    result.axes |= uint64_t{1} << expr->ival;
  if (expr->kind == ExprKind::kReduced || expr->kind == ExprKind::kScanned) {
    BRAZE_CHECK(expr->ival < 64, "a kernel with more than 64 reductions and scans");
    result.reduced |= uint64_t{1} << expr->ival;
  }
  if (expr->kind == ExprKind::kLoad || expr->kind == ExprKind::kCheckIndex) result.reads = true;
  if (expr->kind == ExprKind::kLoad && reread_[expr->ival]) result.rereads = true;
  return facts_.emplace(expr, result).first->second;
}

int ExpressionWriter::depth_of(ExprRef expr) {
  const Facts& f = facts(expr);
  if (f.rereads) return static_cast<int>(scopes_.size()) - 1;
  int depth = f.reads ? guard_depth_ : 0;
  for (size_t a = 0; a < axis_depth_.size(); ++a)
    if (f.axes >> a & 1) depth = std::max(depth, axis_depth_[a]);
  if (f.reduced)
    for (const auto& [key, value] : reduced_[column_])
      if (f.reduced >> key.first & 1) depth = std::max(depth, value.depth);
  if (f.reduced && nest_.vector_is_outer()) depth = std::max(depth, axis_depth_[nest_.vector_axis]);
  return depth;
}

bool ExpressionWriter::varies(ExprRef expr) {
  if (lane_mode_) return false;
  const Facts& f = facts(expr);
  if (nest_.vector_axis >= 0 && f.axes >> nest_.vector_axis & 1) return true;
  // Reductions have a value for each lane when the lanes are outer points.
  return f.reduced != 0 && nest_.vector_is_outer();
}

DType ExpressionWriter::dtype_of(ExprRef expr) {
  return varies(expr) && fits_int32(expr, nest_.extent, nest_.limits) ? DType::kInt32 : expr->dtype;
}

const std::string* ExpressionWriter::kept_row(ExprRef expr) {
  const auto kept = nest_.kept_rows.find(expr);
  if (kept == nest_.kept_rows.end() || lane_mode_ || !varies(expr) || guard_depth_ > 0)
    return nullptr;
  std::string& name = rows_[expr];
  if (name.empty()) {
    name = fresh("row");
    const std::string type = scalar_type(expr->dtype);
    const sym::Int length = nest_.extent[nest_.vector_axis];
    const sym::Int padded =
        nest_.vectors > 0 || nest_.longest > 0
            ? sym::Int(nest_.most_elements())
            : sym::floordiv(length + sym::Int(nest_.lanes - 1), nest_.lanes) * nest_.lanes;
    std::vector<std::string>& lines = scopes_.front().lines;
    if (padded.is_constant()) {
      lines.push_back(type + " " + name + "[" + size(padded) + "];");
    } else {
      const std::string needed = size(padded), most = std::to_string(kLongestRow);
      const std::string fits = needed + " <= " + most;
      lines.push_back(type + " " + name + "_near[" + most + "];");
      lines.push_back(type + "* const " + name + " = " + fits + " ? " + name + "_near : (" + type +
                      "*)__builtin_malloc(" + needed + " * sizeof(" + type + "));");
      clean_up_.push_back("if (!(" + fits + ")) __builtin_free(" + name + ");");
    }
  }
  return &name;
}

Operand ExpressionWriter::emit_as(ExprRef expr, DType dtype, int user_depth) {
  const DType from = dtype_of(expr);
  const Operand value = emit(expr, user_depth);
  return value.vector ? cast(value, from, dtype) : value;
}

void ExpressionWriter::at_depth(int depth, const std::function<void()>& body) {
  std::vector<Scope> deeper;
  while (static_cast<int>(scopes_.size()) > depth + 1) {
    deeper.push_back(std::move(scopes_.back()));
    scopes_.pop_back();
  }
  body();
  while (!deeper.empty()) {
    scopes_.push_back(std::move(deeper.back()));
    deeper.pop_back();
  }
}

std::string ExpressionWriter::lane_header() {
  return "for (int l = 0; l < " + (active_.empty() ? std::to_string(nest_.lanes) : active_) +
         "; ++l)" + (guard_mask_.empty() ? "" : " if (" + guard_mask_ + "[l])");
}

std::vector<std::string> ExpressionWriter::lane_loop(const std::function<void()>& body,
                                                     const std::string& lane) {
  const int axis = nest_.vector_axis;
  const Binding outside = binding(axis);
  const std::string mask = std::exchange(guard_mask_, "");
  const int guard = guard_depth_;
  open();
  if (!mask.empty()) guard_depth_ = static_cast<int>(scopes_.size()) - 1;
  const std::string name =
      fresh(axis < nest_.outer_count ? "o" + std::to_string(axis) + "_lane"
                                     : "i" + std::to_string(axis - nest_.outer_count) + "_lane");
  line("const i64 " + name + " = " + outside.text + lane + ";");
  bind_axis(axis, name);
  lane_mode_ = true;
  body();
  lane_mode_ = false;
  std::vector<std::string> lines = close();
  rebind(axis, outside);
  guard_mask_ = mask;
  guard_depth_ = guard;
  return lines;
}

void ExpressionWriter::forget_rereads() {
  for (Scope& scope : scopes_)
    std::erase_if(scope.values, [&](const auto& entry) { return facts(entry.first).rereads; });
}

Operand ExpressionWriter::emit(ExprRef expr) {
  return emit(expr, static_cast<int>(scopes_.size()) - 1);
}

Operand ExpressionWriter::emit(ExprRef expr, int user_depth) {
  if (expr->kind == ExprKind::kConst) return {constant(expr), false, true};
  if (expr->kind == ExprKind::kSize) return {size(expr->size), false, true};
  if (expr->kind == ExprKind::kReduced || expr->kind == ExprKind::kScanned) {
    const auto found = reduced_[column_].find({expr->ival, expr->component});
    BRAZE_CHECK(found != reduced_[column_].end(), "reduction ", expr->ival,
                " is used before it is done");
    const Operand& value = found->second.value;
    if (!lane_mode_ || !value.vector) return value;
    return lane_of(value, expr->dtype);
  }
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->values.find(expr);
    if (found == scope->values.end()) continue;
    const Operand& value = found->second;
    if (!lane_mode_ || !value.vector) return value;
    return lane_of(value, expr->dtype);
  }
  if (expr->kind == ExprKind::kAxis && !varies(expr)) return {axis_text_[expr->ival], false, true};

  const int depth = depth_of(expr);
  const std::string* row = kept_row(expr);
  const bool is_kept = row && nest_.kept_rows.at(expr) < sweep_;
  const std::string place = row ? *row + " + " + axis_text_[nest_.vector_axis] : std::string();
  if (is_kept) prelude_.need("load");
  Operand value = is_kept ? call("load<" + type_of(expr->dtype, true) + ">(" + place + ")", true)
                          : build(expr, depth);
  if (row && !is_kept) {
    const std::string name = fresh("x_" + std::string(loop::to_string(expr->kind)));
    prelude_.need("store");
    scopes_[depth].lines.push_back("const " + type_of(expr->dtype, true) + " " + name + " = " +
                                   value.text + ";");
    scopes_[depth].lines.push_back("store(" + place + ", " + name + ");");
    value = {name, true, true};
  }
  // A check is made also where it is an operand of a choice, which C++ need not evaluate.
  if (uses_[expr] == 1 && depth == user_depth && value.text.size() <= kLongestInline &&
      expr->kind != ExprKind::kCheckIndex)
    return value;
  // Loads are named after their buffer, the rest after the op.
  const std::string stem = expr->kind == ExprKind::kLoad ? "v" + std::to_string(expr->ival)
                           : expr->kind == ExprKind::kAxis
                               ? "position"
                               : "x_" + std::string(loop::to_string(expr->kind));
  const bool named = std::all_of(value.text.begin(), value.text.end(),
                                 [](char c) { return std::isalnum(c) || c == '_'; });
  if (!named) {
    std::string name = fresh(stem);
    scopes_[depth].lines.push_back("const " + type_of(dtype_of(expr), value.vector) + " " + name +
                                   " = " + value.text + ";");
    value = {std::move(name), value.vector, true};
  }
  scopes_[depth].values[expr] = value;
  return value;
}

Operand ExpressionWriter::build(ExprRef expr, int depth) {
  switch (expr->kind) {
    case ExprKind::kConst:
    case ExprKind::kSize:
    case ExprKind::kReduced:
    case ExprKind::kScanned:
      break;
    case ExprKind::kAxis: {
      const std::string element = scalar_type(dtype_of(expr));
      std::string iota = prelude_.vector(element, nest_.lanes) + "{";
      for (int l = 0; l < nest_.lanes; ++l) iota += (l ? ", " : "") + std::to_string(l);
      iota += "} + " + element + "(" + axis_text_[expr->ival] + ")";
      if (nest_.vectors == 0) return {iota, true, false};
      // Positions are constants here; GCC 12 fails on some comparisons with such (see `opaque`).
      prelude_.need("opaque");
      return call("opaque(" + prelude_.vector(element, nest_.lanes) + "(" + iota + "))", true);
    }
    case ExprKind::kLoad:
      return build_load(expr, depth);
    case ExprKind::kMasked:
      return build_masked(expr, depth);
    case ExprKind::kCheckIndex:
      return build_check(expr, depth);
    case ExprKind::kRandom:
      return RandomNumbers::build(*this, expr, depth);
    case ExprKind::kAfter: {
      const Operand check = emit(expr->args[0], depth);
      // One that differs by lane has been written by now.
      if (!check.vector) scopes_[depth].lines.push_back("(void)(" + check.text + ");");
      const DType dtype = dtype_of(expr);
      Operand value = emit_as(expr->args[1], dtype, depth);
      if (varies(expr) && !value.vector) return {as_vector(value, dtype), true, false};
      return value;
    }
    case ExprKind::kCast:
      return cast(emit(expr->args[0], depth), dtype_of(expr->args[0]), expr->dtype);
    case ExprKind::kBitcast: {
      const DType from = expr->args[0]->dtype;
      const Operand value = emit_as(expr->args[0], from, depth);
      const std::string stored = to_storage(value, from);
      if (from == DType::kBool || graph::is_half(from) || graph::is_half(expr->dtype) ||
          expr->dtype == DType::kBool) {
        const std::string type = value.vector
                                     ? prelude_.vector(storage_type(expr->dtype), nest_.lanes)
                                     : storage_type(expr->dtype);
        prelude_.need("bits");
        return from_storage("bits<" + type + ">(" + stored + ")", expr->dtype, value.vector);
      }
      prelude_.need("bits");
      return call("bits<" + type_of(expr->dtype, value.vector) + ">(" + stored + ")", value.vector);
    }
    case ExprKind::kWhere: {
      const bool vector = varies(expr);
      const Operand c = emit(expr->args[0], depth);
      const Operand a = emit_as(expr->args[1], expr->dtype, depth);
      const Operand b = emit_as(expr->args[2], expr->dtype, depth);
      if (!vector) return {paren(c) + " ? " + paren(a) + " : " + paren(b), false, false};
      const std::string condition =
          c.vector ? mask_as(paren(c), expr->dtype == DType::kBool ? nest_.mask_bytes
                                                                   : compute_bytes(expr->dtype))
                   : paren(c);
      return {condition + " ? " + as_vector(a, expr->dtype) + " : " + as_vector(b, expr->dtype),
              true, false};
    }
    default:
      break;
  }
  // Operands of one dtype: half as wide where both are small index arithmetic.
  const ExprRef first = expr->args[0], last = expr->args.back();
  const bool narrow =
      (varies(first) || varies(last)) && fits_int32(first, nest_.extent, nest_.limits) &&
      fits_int32(last, nest_.extent, nest_.limits) &&
      (loop::is_comparison(expr->kind) || fits_int32(expr, nest_.extent, nest_.limits));
  const DType dtype = narrow ? DType::kInt32 : first->dtype;
  const Operand a = emit_as(first, dtype, depth);
  if (expr->args.size() == 1) return build_unary(expr, a, dtype);
  BRAZE_CHECK(expr->args.size() == 2, "an expression of kind ", loop::to_string(expr->kind));
  return build_binary(expr, a, emit_as(last, dtype, depth), dtype);
}

Operand ExpressionWriter::build_masked(ExprRef expr, int depth) {
  const Operand condition = emit(expr->args[0], depth);
  const Operand other = emit_as(expr->args[2], expr->dtype, depth);
  const bool vector = varies(expr);
  const std::string name = fresh("x_masked");
  // An expression that loads nothing may be written outside of the guard around it, where the
  // guard's mask is not defined.
  const std::string around = guard_mask_;
  const std::string outer_mask = facts(expr).reads ? around : "";
  const int outer_depth = guard_depth_;
  guard_mask_ = outer_mask;
  at_depth(depth, [&] {
    const auto as_result = [&](const Operand& value) {
      return vector ? as_vector(value, expr->dtype) : value.text;
    };
    line(type_of(expr->dtype, vector) + " " + name + " = " + as_result(other) + ";");
    open();
    guard_depth_ = static_cast<int>(scopes_.size()) - 1;
    if (condition.vector) {
      const std::string mask = fresh("guard");
      std::string text = "const " + mask_type() + " " + mask + " = " + condition.text;
      if (!outer_mask.empty()) text = text + " & " + outer_mask;
      if (!active_.empty()) text += " & " + active_mask(mask_type());
      line(text + ";");
      guard_mask_ = mask;
      const bool skips = is_worth_a_branch(nest_, expr->args[0]);
      if (skips) {
        open();
        ++guard_depth_;
      }
      const Operand value = emit_as(expr->args[1], expr->dtype, guard_depth_);
      line(name + " = " +
           mask_as(mask,
                   expr->dtype == DType::kBool ? nest_.mask_bytes : compute_bytes(expr->dtype)) +
           " ? " + as_vector(value, expr->dtype) + " : " + name + ";");
      if (skips) {
        prelude_.need("any");
        const std::vector<std::string> body = close();
        block("if (any(" + mask + "))", body);
      }
    } else {
      const Operand value =
          emit_as(expr->args[1], expr->dtype, static_cast<int>(scopes_.size()) - 1);
      line(name + " = " + as_result(value) + ";");
    }
    std::vector<std::string> body = close();
    block(condition.vector ? "" : "if (" + condition.text + ")", body);
    guard_depth_ = outer_depth;
  });
  guard_mask_ = around;
  return {name, vector, true};
}

Operand ExpressionWriter::build_check(ExprRef expr, int depth) {
  const Operand index = emit_as(expr->args[0], DType::kInt64, depth);
  const Operand size = emit_as(expr->args[1], DType::kInt64, depth);
  if (!varies(expr)) {
    prelude_.need("check_index");
    // Under a condition that differs by lane, one lane is enough to make the check count.
    std::string text = "check_index(" + index.text + ", " + size.text + ", failed)";
    if (!guard_mask_.empty()) {
      prelude_.need("any");
      text = "any(" + guard_mask_ + ") ? " + text + " : 0";
    }
    return {text, false, guard_mask_.empty()};
  }
  const std::string bad = fresh("bad");
  const std::string type = prelude_.vector("i64", nest_.lanes);
  const std::string vector_index = as_vector(index, DType::kInt64);
  const std::string vector_size = as_vector(size, DType::kInt64);
  std::string mask = "((" + vector_index + " < 0) | (" + vector_index + " >= " + vector_size + "))";
  if (!guard_mask_.empty()) mask += " & " + mask_as(guard_mask_, 8);
  if (!active_.empty()) {
    mask += " & " + active_mask(type);
  }
  prelude_.need("any");
  scopes_[depth].lines.push_back("const " + type + " " + bad + " = " + mask + ";");
  scopes_[depth].lines.push_back("failed |= any(" + bad + ");");
  return {bad + " ? " + type + "{} : " + vector_index, true, false};
}

}  // namespace braze::codegen::cpp
