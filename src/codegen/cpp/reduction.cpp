#include "codegen/cpp/reduction.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace braze::codegen::cpp {

using graph::DType;
using loop::ReduceOp;

namespace {

std::string lowest(DType dtype, bool highest) {
  if (graph::is_float(dtype)) {
    const double inf = std::numeric_limits<double>::infinity();
    return literal(dtype, highest ? inf : -inf);
  }
  switch (dtype) {
    case DType::kUInt8:
      return highest ? "255" : "0";
    case DType::kInt8:
      return highest ? "127" : "-128";
    case DType::kInt16:
      return highest ? "32767" : "-32768";
    case DType::kInt32:
      return highest ? "__INT_MAX__" : "(-__INT_MAX__ - 1)";
    default:
      return highest ? "__LONG_LONG_MAX__" : "(-__LONG_LONG_MAX__ - 1)";
  }
}

}  // namespace

Reduction::Reduction(const Nest& nest, Task task, int column, ExpressionWriter& writer)
    : nest_(nest), task_(task), statement_(*task.statement), writer_(writer) {
  dtype_ = is_arg() ? statement_.value->dtype : statement_.accumulate;
  if (statement_.op == ReduceOp::kAny || statement_.op == ReduceOp::kAll) dtype_ = DType::kBool;
  index_type_ = "i64";
  if (is_arg()) {
    const sym::Int points = this->points();
    if (points.hint() < (int64_t{1} << 31)) {
      index_type_ = "i32";
      if (!points.is_constant()) nest.limits.push_back(points);
    }
  }
  base_ = "r" + std::to_string(statement_.reduced);
  if (column >= 0) base_ += "_c" + std::to_string(column);
  stem_ = base_;
  if (task.role == Task::Role::kMean) stem_ += "_mean";
  if (task.role == Task::Role::kSquares) stem_ += "_squares";
  if (task.role == Task::Role::kCorrection) stem_ += "_corrected";
  if (task.role == Task::Role::kSquaresAgain) stem_ += "_squares_again";
}

bool Reduction::can_unroll(const Task& task) {
  return task.statement->op != ReduceOp::kArgMax && task.statement->op != ReduceOp::kArgMin;
}

sym::Int Reduction::points() const {
  sym::Int points = 1;
  for (size_t axis = nest_.outer_count; axis < nest_.extent.size(); ++axis)
    points = points * nest_.extent[axis];
  return points;
}

bool Reduction::is_arg() const {
  return statement_.op == ReduceOp::kArgMax || statement_.op == ReduceOp::kArgMin;
}

std::string Reduction::name(int copy) const {
  return stem_ + (in_part_ ? "_part" : "_acc") + std::to_string(copy);
}

std::string Reduction::identity() {
  switch (statement_.op) {
    case ReduceOp::kSum:
    case ReduceOp::kWelford:
      return graph::is_float(dtype_) ? literal(dtype_, 0) : "0";
    case ReduceOp::kProd:
      return graph::is_float(dtype_) ? literal(dtype_, 1) : "1";
    case ReduceOp::kAny:
      return "false";
    case ReduceOp::kAll:
      return "true";
    case ReduceOp::kMax:
    case ReduceOp::kArgMax:
      return dtype_ == DType::kBool ? "false" : lowest(dtype_, false);
    case ReduceOp::kMin:
    case ReduceOp::kArgMin:
      return dtype_ == DType::kBool ? "true" : lowest(dtype_, true);
  }
  BRAZE_UNREACHABLE("reduction ", static_cast<int>(statement_.op));
}

std::string Reduction::combine(const std::string& a, const std::string& b) {
  const bool is_bool = dtype_ == DType::kBool;
  switch (statement_.op) {
    case ReduceOp::kSum:
    case ReduceOp::kWelford:
      return is_bool ? a + " | " + b : a + " + " + b;
    case ReduceOp::kProd:
      return is_bool ? a + " & " + b : a + " * " + b;
    case ReduceOp::kAny:
      return a + " | " + b;
    case ReduceOp::kAll:
      return a + " & " + b;
    case ReduceOp::kMax:
    case ReduceOp::kMin: {
      const bool max = statement_.op == ReduceOp::kMax;
      if (is_bool) return a + (max ? " | " : " & ") + b;
      const std::string function = max ? "maximum" : "minimum";
      writer_.prelude().need(function);
      return function + "<" + writer_.type_of(dtype_, lanes()) + ">(" + a + ", " + b + ")";
    }
    case ReduceOp::kArgMax:
    case ReduceOp::kArgMin:
      break;
  }
  BRAZE_UNREACHABLE("reduction ", static_cast<int>(statement_.op));
}

void Reduction::declare(int copies) {
  copies_ = copies;
  const std::string type = writer_.type_of(dtype_, lanes());
  Operand start{identity(), false, true};
  const std::string text = lanes() ? writer_.as_vector(start, dtype_) : start.text;
  for (int copy = 0; copy < copies; ++copy)
    writer_.line(type + " " + name(copy) + " = " + text + ";");
  for (int level = 0; level < totals_; ++level)
    writer_.line(type + " " + total(level) + " = " + text + ";");
  if (!is_arg()) return;
  // Positions start at the first element that a lane sees: if nothing beats the start value, that
  // is the answer.
  if (!lanes()) {
    writer_.line(index_type_ + " " + stem_ + "_at = 0;");
    return;
  }
  const std::string positions = writer_.prelude().vector(index_type_, nest_.lanes);
  sym::Int stride = 0;
  if (folds_lanes()) {
    stride = 1;
    for (size_t axis = nest_.vector_axis + 1; axis < nest_.extent.size(); ++axis)
      stride = stride * nest_.extent[axis];
  }
  std::string first = positions + "{";
  for (int l = 0; l < nest_.lanes; ++l) {
    const std::string at = writer_.size(sym::Int(l) * stride);
    first += (l ? ", " : "") + (stride.is_constant() ? at : index_type_ + "(" + at + ")");
  }
  writer_.line(positions + " " + stem_ + "_at = " + first + "};");
  if (folds_lanes()) writer_.line("const " + positions + " " + stem_ + "_lane = " + first + "};");
}

// Row-major number of the current inner point, of its first lane if there are lanes.
std::string Reduction::position() {
  std::string text;
  sym::Int stride = 1;
  for (int axis = static_cast<int>(nest_.extent.size()) - 1; axis >= nest_.outer_count; --axis) {
    if (!is_trivial(nest_.extent[axis])) {
      const std::string part = writer_.axis_position(axis);
      text += (text.empty() ? "" : " + ") + part + "*" + writer_.size(stride);
    }
    stride = stride * nest_.extent[axis];
  }
  return text.empty() ? "0" : text;
}

// Whether two elements are as good as each other.
std::string Reduction::same_element(const std::string& a, const std::string& b) const {
  if (lanes() && dtype_ == DType::kBool) return "~(" + a + " ^ " + b + ")";
  const std::string equal = "(" + a + " == " + b + ")";
  if (!graph::is_float(dtype_)) return equal;
  const char *both = lanes() ? " & " : " && ", *either = lanes() ? " | " : " || ";
  return equal + either + "((" + a + " != " + a + ")" + both + "(" + b + " != " + b + "))";
}

void Reduction::accumulate_arg(const Operand& operand) {
  const bool max = statement_.op == ReduceOp::kArgMax;
  const std::string type = writer_.type_of(dtype_, lanes());
  const std::string best = name(0), at = stem_ + "_at";
  const std::string value = writer_.fresh(stem_ + "_value");
  const std::string wins = writer_.fresh(stem_ + "_wins");
  writer_.line("const " + type + " " + value + " = " +
               (lanes() ? writer_.as_vector(operand, dtype_) : operand.text) + ";");
  std::string test;
  if (lanes() && dtype_ == DType::kBool)
    test = max ? value + " & ~" + best : "~" + value + " & " + best;
  else
    test = value + (max ? " > " : " < ") + best;
  if (graph::is_float(dtype_)) {
    const char* both = lanes() ? " & " : " && ";
    test = "(" + test + (lanes() ? ") | ((" : ") || ((") + value + " != " + value + ")" + both +
           "(" + best + " == " + best + "))";
  }
  // Points that are not walked in their own order: of equal ones the first in that.
  const bool in_order = std::ranges::is_sorted(nest_.inner);
  const std::string same = same_element(value, best);
  if (!lanes()) {
    if (!in_order) test = "(" + test + ") || ((" + same + ") && " + position() + " < " + at + ")";
    writer_.block("if (" + test + ")", {best + " = " + value + ";", at + " = " + position() + ";"});
    return;
  }
  const std::string width = "i" + std::to_string(8 * compute_bytes(dtype_));
  const std::string positions = writer_.prelude().vector(index_type_, nest_.lanes);
  writer_.prelude().need("convert");
  writer_.prelude().need("splat");
  const std::string here = "splat<" + positions + ">(" + index_type_ + "(" + position() + "))" +
                           (folds_lanes() ? " + " + stem_ + "_lane" : "");
  const std::string mask = writer_.prelude().vector(
      dtype_ == DType::kBool ? "i" + std::to_string(8 * nest_.mask_bytes) : width, nest_.lanes);
  if (!in_order)
    test = "(" + test + ") | ((" + same + ") & convert<" + mask + ">((" + here + ") < " + at + "))";
  if (!writer_.active().empty() && folds_lanes()) {
    test = "(" + test + ") & " + writer_.active_mask(mask);
  }
  writer_.line("const " + mask + " " + wins + " = " + test + ";");
  writer_.line(best + " = " + wins + " ? " + value + " : " + best + ";");
  writer_.line(at + " = convert<" + positions + ">(" + wins + ") ? " + here + " : " + at + ";");
}

void Reduction::accumulate(int copy) {
  Operand value =
      writer_.cast(writer_.emit(statement_.value), writer_.dtype_of(statement_.value), dtype_);
  if (is_arg()) return accumulate_arg(value);
  std::string text = lanes()      ? writer_.as_vector(value, dtype_)
                     : value.atom ? value.text
                                  : "(" + value.text + ")";
  const bool is_again = task_.role == Task::Role::kSquaresAgain;
  const bool is_correction = task_.role == Task::Role::kCorrection;
  if (is_correction || is_again || task_.role == Task::Role::kSquares) {
    const std::string delta = writer_.fresh("delta");
    writer_.line("const " + writer_.type_of(dtype_, lanes()) + " " + delta + " = " + text + " - " +
                 base_ + (is_again ? "_corrected;" : "_mean;"));
    text = is_correction ? delta : delta + " * " + delta;
  }
  if (!writer_.active().empty() && folds_lanes()) {
    const std::string element = dtype_ == DType::kBool ? std::to_string(8 * nest_.mask_bytes)
                                                       : std::to_string(8 * compute_bytes(dtype_));
    const std::string mask = writer_.prelude().vector("i" + element, nest_.lanes);
    // Comparisons give vectors of `long`, masks are vectors of `long long`: not the same type.
    text = "(" + writer_.active_mask(mask) + " ? " + writer_.type_of(dtype_, lanes()) + "(" + text +
           ") : " + writer_.as_vector({identity(), false, true}, dtype_) + ")";
  }
  writer_.line(name(copy) + " = " + combine(name(copy), text) + ";");
}

bool Reduction::has_parts() const {
  return graph::is_float(dtype_) &&
         (statement_.op == ReduceOp::kSum || statement_.op == ReduceOp::kWelford);
}

void Reduction::begin_part() {
  in_part_ = true;
  const std::string zero = literal(dtype_, 0);
  for (int copy = 0; copy < copies_; ++copy)
    writer_.line(writer_.type_of(dtype_, lanes()) + " " + name(copy) + " = " +
                 (lanes() ? writer_.as_vector({zero, false, true}, dtype_) : zero) + ";");
}

void Reduction::end_part() {
  for (int copy = 0; copy < copies_; ++copy) {
    in_part_ = true;
    const std::string part = name(copy);
    in_part_ = false;
    writer_.line(name(copy) + " = " + combine(name(copy), part) + ";");
  }
}

// ((0 + 1) + (2 + 3)): neighbours first.
std::string Reduction::sum_of_copies() {
  std::vector<std::string> parts;
  for (int copy = 0; copy < copies_; ++copy) parts.push_back(name(copy));
  while (parts.size() > 1) {
    std::vector<std::string> merged;
    for (size_t i = 0; i + 1 < parts.size(); i += 2)
      merged.push_back("(" + combine(parts[i], parts[i + 1]) + ")");
    if (parts.size() % 2) merged.push_back(parts.back());
    parts = std::move(merged);
  }
  return parts[0];
}

void Reduction::move_to_total(int level) {
  const std::string sum = level == 0 ? sum_of_copies() : total(level - 1);
  writer_.line(total(level) + " = " + combine(total(level), sum) + ";");
  const std::string zero = literal(dtype_, 0);
  const std::string start = lanes() ? writer_.as_vector({zero, false, true}, dtype_) : zero;
  if (level > 0) return writer_.line(total(level - 1) + " = " + start + ";");
  for (int copy = 0; copy < copies_; ++copy) writer_.line(name(copy) + " = " + start + ";");
}

void Reduction::finish_arg() {
  const std::string element = scalar_type(dtype_);
  if (!lanes() || !folds_lanes()) {
    Operand value{name(0), lanes(), true};
    Operand at{stem_ + "_at", lanes(), true};
    writer_.bind_reduced(statement_.reduced, 1, value);
    writer_.bind_reduced(
        statement_.reduced, 0,
        writer_.cast(at, index_type_ == "i32" ? DType::kInt32 : DType::kInt64, DType::kInt64));
    return;
  }
  const bool max = statement_.op == ReduceOp::kArgMax;
  const std::string best = stem_ + "_best", index = stem_ + "_index";
  const std::string lane_value =
      name(0) + "[l]" + (dtype_ == DType::kBool ? std::string(" != 0") : std::string());
  writer_.line(element + " " + best + " = " +
               (dtype_ == DType::kBool ? name(0) + "[0] != 0" : name(0) + "[0]") + ";");
  writer_.line("i64 " + index + " = " + stem_ + "_at[0];");
  std::string better = std::string("x") + (max ? " > " : " < ") + best;
  std::string same = "x == " + best;
  if (graph::is_float(dtype_)) {
    better = "(" + better + " || (x != x && " + best + " == " + best + "))";
    same = "(" + same + " || (x != x && " + best + " != " + best + "))";
  }
  writer_.block("for (int l = 1; l < " + std::to_string(nest_.lanes) + "; ++l)",
                {"const " + element + " x = " + lane_value + ";",
                 "if (" + better + " || (" + same + " && " + stem_ + "_at[l] < " + index + ")) {",
                 "  " + best + " = x;", "  " + index + " = " + stem_ + "_at[l];", "}"});
  writer_.bind_reduced(statement_.reduced, 0, {index, false, true});
  writer_.bind_reduced(statement_.reduced, 1, {best, false, true});
}

// The number of points in the accumulator's dtype.
std::string Reduction::count() {
  const sym::Int points = this->points();
  if (points.is_constant()) return literal(dtype_, static_cast<double>(points.constant()));
  return scalar_type(dtype_) + "(" + writer_.size(points) + ")";
}

void Reduction::finish() {
  if (is_arg()) return finish_arg();
  std::string text = sum_of_copies();
  for (int level = 0; level < totals_; ++level) text = "(" + combine(total(level), text) + ")";
  const bool vector = lanes() && !folds_lanes();
  if (folds_lanes()) {
    const std::string type = writer_.type_of(dtype_, true);
    if (dtype_ == DType::kBool) {
      writer_.prelude().need("any");
      const bool all = statement_.op == ReduceOp::kAll || statement_.op == ReduceOp::kMin ||
                       statement_.op == ReduceOp::kProd;
      text = all ? "!any(" + type + "(~" + text + "))" : "any(" + type + "(" + text + "))";
    } else {
      const char* fold = statement_.op == ReduceOp::kProd  ? "prod_of"
                         : statement_.op == ReduceOp::kMax ? "max_of"
                         : statement_.op == ReduceOp::kMin ? "min_of"
                                                           : "sum_of";
      writer_.prelude().fold(fold, scalar_type(dtype_), nest_.lanes);
      text = std::string(fold) + "(" + type + "(" + text + "))";
    }
  }
  if (task_.role == Task::Role::kMean) text = text + " / " + count();
  if (task_.role == Task::Role::kCorrection) {
    writer_.line("const " + writer_.type_of(dtype_, vector) + " " + base_ + "_left = " + text +
                 " / " + count() + ";");
    text = base_ + "_mean + " + base_ + "_left";
  }
  const char* constant = task_.may_be_corrected ? "" : "const ";
  writer_.line(constant + writer_.type_of(dtype_, vector) + " " + stem_ + " = " + text + ";");
  const Operand result{stem_, vector, true};
  if (task_.role == Task::Role::kReduce) {
    writer_.bind_reduced(statement_.reduced, 0, result);
  } else if (task_.role == Task::Role::kMean || task_.role == Task::Role::kSquares) {
    writer_.bind_reduced(statement_.reduced, task_.role == Task::Role::kSquares ? 1 : 0, result);
    writer_.bind_reduced(statement_.reduced, 2, {count(), false, true});
  }
}

bool Reduction::may_be_corrected() const {
  return task_.role == Task::Role::kSquares && task_.may_be_corrected;
}

std::string Reduction::write_whether_corrected() {
  // The error of a mean is some roundings of it, 1e-6 for floats. Its square is beneath the
  // rounding of a variance of more than this part of the mean's square. Where one of them is not a
  // number, neither is the corrected mean, as in the running form.
  const std::string part = literal(dtype_, 1e-5);
  const std::string enough =
      stem_ + " >= " + base_ + "_mean * " + base_ + "_mean * (" + count() + " * " + part + ")";
  const bool vector = lanes() && !folds_lanes();
  if (!vector) return "!(" + enough + ")";
  const std::string mask =
      writer_.prelude().vector("i" + std::to_string(8 * compute_bytes(dtype_)), nest_.lanes);
  writer_.line("const " + mask + " " + base_ + "_little = ~(" + enough + ");");
  writer_.prelude().need("any");
  return "any(" + base_ + "_little)";
}

void Reduction::write_corrected() {
  const bool vector = lanes() && !folds_lanes();
  const std::string where = vector ? base_ + "_little ? " : "";
  const auto write = [&](const std::string& name, const std::string& instead) {
    writer_.line(name + " = " + where + instead + (vector ? " : " + name : "") + ";");
  };
  // What the corrected mean lacks for being rounded is no part of the sum of squares.
  const std::string rest = base_ + "_rest";
  writer_.line("const " + writer_.type_of(dtype_, vector) + " " + rest + " = " + base_ +
               "_left - (" + base_ + "_corrected - " + base_ + "_mean);");
  write(base_ + "_mean", base_ + "_corrected");
  write(stem_, stem_ + "_again - " + rest + " * " + rest + " * " + count());
}

}  // namespace braze::codegen::cpp
