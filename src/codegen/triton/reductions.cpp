#include "codegen/triton/reductions.h"

#include "base/error.h"

namespace braze::codegen::triton {
namespace {

using graph::DType;
using loop::ReduceOp;
using loop::Statement;

bool is_arg(const Statement& s) { return s.op == ReduceOp::kArgMax || s.op == ReduceOp::kArgMin; }
bool is_large(const Statement& s) { return s.op == ReduceOp::kMax || s.op == ReduceOp::kArgMax; }

// Integers narrower than 32 bits are reduced in those.
DType accumulated(const Statement& s) {
  if (graph::is_float(s.accumulate)) return s.accumulate;
  return s.accumulate == DType::kInt64 ? DType::kInt64 : DType::kInt32;
}

std::string neutral_of(const Statement& s) {
  const DType dtype = accumulated(s);
  const bool is_float = graph::is_float(dtype);
  switch (s.op) {
    case ReduceOp::kSum:
    case ReduceOp::kWelford:
      return is_float ? "0.0" : "0";
    case ReduceOp::kAny:
      return "0";
    case ReduceOp::kProd:
      return is_float ? "1.0" : "1";
    case ReduceOp::kAll:
      return "1";
    case ReduceOp::kMax:
    case ReduceOp::kArgMax:
      if (is_float) return "float(\"-inf\")";
      return dtype == DType::kInt64 ? "-9223372036854775808" : "-2147483648";
    case ReduceOp::kMin:
    case ReduceOp::kArgMin:
      if (is_float) return "float(\"inf\")";
      return dtype == DType::kInt64 ? "9223372036854775807" : "2147483647";
  }
  BRAZE_UNREACHABLE("reduction");
}

// The sum of exponentials is of numbers that are halves.
bool of_halves(const Statement& top) {
  return top.value->kind == loop::ExprKind::kCast && graph::is_half(top.value->args[0]->dtype);
}

std::string accumulator(const Statement& s) { return "a" + std::to_string(s.reduced); }
std::string result(const Statement& s) { return "r" + std::to_string(s.reduced); }

}  // namespace

std::string ReductionWriter::shape() const {
  return tile_.is_row() ? "[COLUMNS]" : "[ROWS, COLUMNS]";
}

std::string ReductionWriter::numbers() const {
  return tile_.form == Form::kRows ? "column" : "row";
}

// `values`: reduced over inner points, so that the result stands beside values of outer points.
std::string ReductionWriter::over(const std::string& function, const std::string& values,
                                  const std::string& combine) const {
  const std::string axis = tile_.is_row() || tile_.form == Form::kColumns ? ", 0" : ", 1";
  return function + "(" + values + axis + (combine.empty() ? "" : ", " + combine) +
         (tile_.is_row() ? ")" : ", keep_dims=True)");
}

std::string ReductionWriter::element(const Statement& s) {
  const DType dtype = accumulated(s);
  const bool constant = s.value->is_constant();
  std::string value = constant ? typed(s.value) : writer_.emit(s.value);
  // An index may be there in 32 bits.
  if (dtype != s.value->dtype || dtype == DType::kInt64) value += ".to(" + type_of(dtype) + ")";
  if (writer_.lanes_of(s.value) & kInnerLanes) return value;
  return "tl.broadcast_to(" + value + ", " + shape() + ")";
}

std::string ReductionWriter::masked(const Statement& s, const std::string& neutral) {
  const std::string value = element(s), mask = writer_.mask_of(kInnerLanes);
  return mask.empty() ? value : "tl.where(" + mask + ", " + value + ", " + neutral + ")";
}

void ReductionWriter::bind(const Statement& s, const std::string& value) {
  const DType dtype = loop::reduced_dtype(s.op, s.accumulate, is_arg(s) ? 1 : 0);
  const std::string name = result(s), typed = cast(value, accumulated(s), dtype);
  if (typed != name) writer_.line(name + " = " + typed);
  writer_.bind_result(s.reduced, is_arg(s) ? 1 : 0, name);
}

std::string ReductionWriter::reduced(const Statement& s, const std::string& values) {
  const bool wide = s.accumulate == DType::kFloat64;
  const auto with = [&](const std::string& function) {
    helpers_.insert(function);
    return over("tl.reduce", values, function);
  };
  const bool is_float = graph::is_float(s.accumulate);
  switch (s.op) {
    case ReduceOp::kSum:
      return over("tl.sum", values);
    case ReduceOp::kProd:
      return with("product");
    case ReduceOp::kMax:
      return is_float ? with(wide ? "maximum_f64" : "maximum") : over("tl.max", values);
    case ReduceOp::kMin:
      return is_float ? with(wide ? "minimum_f64" : "minimum") : over("tl.min", values);
    case ReduceOp::kAny:
      return over("tl.max", values);
    case ReduceOp::kAll:
      return over("tl.min", values);
    case ReduceOp::kArgMax:
      return with("argmax_of");
    case ReduceOp::kArgMin:
      return with("argmin_of");
    case ReduceOp::kWelford:
      return with("welford_of");
  }
  BRAZE_UNREACHABLE("reduction");
}

void ReductionWriter::bind_welford(const Statement& s, const std::string& mean,
                                   const std::string& m2, const std::string& count) {
  writer_.bind_result(s.reduced, 0, mean);
  writer_.bind_result(s.reduced, 1, m2);
  writer_.bind_result(s.reduced, 2, count);
}

// The mean, and the squared deviations from it: it is corrected by the mean of these, so that equal
// numbers have no variance (Chan, Golub, LeVeque 1983, the corrected two-pass algorithm).
void ReductionWriter::write_moments(const Statement& s) {
  const std::string name = result(s), x = name + "_x", near = name + "_near", d = name + "_d";
  const std::string count = std::to_string(nest_.inner_points().constant()) + ".0";
  const auto quotient = [&](const std::string& sum) {
    return s.accumulate == DType::kFloat64 ? sum + " / " + count
                                           : "tl.div_rn(" + sum + ", " + count + ")";
  };
  writer_.line(x + " = " + masked(s, "0.0"));
  writer_.line(near + " = " + quotient(over("tl.sum", x)));
  const std::string mask = writer_.mask_of(kInnerLanes);
  const std::string distance = x + " - " + near;
  writer_.line(d + " = " +
               (mask.empty() ? distance : "tl.where(" + mask + ", " + distance + ", 0.0)"));
  helpers_.insert("sums_of");
  writer_.line(name + "_more, " + name +
               "_m2 = " + over("tl.reduce", "(" + d + ", " + d + " * " + d + ")", "sums_of"));
  writer_.line(name + "_more = " + quotient(name + "_more"));
  writer_.line(name + "_mean = " + near + " + " + name + "_more");
  writer_.line(name + "_m2 = " + name + "_m2 - " + name + "_more * " + name + "_more * " + count);
  writer_.line(name + "_m2 = tl.where(" + name + "_m2 < 0, 0.0, " + name + "_m2)");
  bind_welford(s, name + "_mean", name + "_m2",
               "tl.full([], " + count + ", " + type_of(s.accumulate) + ")");
}

void ReductionWriter::write_whole(const Statement& s) {
  if (s.op == ReduceOp::kWelford) return write_moments(s);
  const std::string values = masked(s, neutral_of(s));
  if (!is_arg(s)) return bind(s, reduced(s, values));
  const std::string name = result(s), places = name + "_places";
  const std::string all = "tl.broadcast_to(" + numbers() + ", " + shape() + ")";
  const std::string mask = writer_.mask_of(kInnerLanes);
  writer_.line(places + " = " +
               (mask.empty() ? all : "tl.where(" + mask + ", " + all + ", 2147483647)"));
  writer_.line(name + ", " + name + "_place = " + reduced(s, "(" + values + ", " + places + ")"));
  bind(s, name);
  writer_.bind_result(s.reduced, 0, name + "_place");
}

void ReductionWriter::begin(const Statement& s) {
  if (is_joined(s)) return;
  const std::string name = accumulator(s);
  const auto full = [&](const std::string& what, const std::string& value, DType dtype) {
    writer_.line(what + " = tl.full(" + shape() + ", " + value + ", " + type_of(dtype) + ")");
  };
  full(name, neutral_of(s), accumulated(s));
  if (is_arg(s)) full(name + "_places", "2147483647", DType::kInt32);
  if (s.op == ReduceOp::kWelford) {
    full(name + "_m2", "0.0", s.accumulate);
    full(name + "_count", "0.0", s.accumulate);
  }
  if (nest_.is_soft_maximum(s)) full(name + "_sum", "0.0", s.accumulate);
}

void ReductionWriter::step(const Statement& s) {
  if (is_joined(s)) return;
  const std::string name = accumulator(s);
  const std::string mask = writer_.mask_of(kInnerLanes);
  if (s.op == ReduceOp::kWelford) {
    helpers_.insert("add_to_welford");
    const std::string one =
        mask.empty() ? "1.0" : "(" + mask + ").to(" + type_of(s.accumulate) + ")";
    writer_.line(name + ", " + name + "_m2, " + name + "_count = add_to_welford(" + name + ", " +
                 name + "_m2, " + name + "_count, " + element(s) + ", " + one + ")");
    return;
  }
  const std::string value = masked(s, neutral_of(s));
  if (nest_.is_soft_maximum(s)) {
    const std::string function =
        of_halves(s) ? "add_to_exponentials_of_halves" : "add_to_exponentials";
    helpers_.insert({function, "maximum"});
    writer_.line(name + ", " + name + "_sum = " + function + "(" + name + ", " + name + "_sum, " +
                 value + ")");
    return;
  }
  if (is_arg(s)) {
    const std::string function = is_large(s) ? "argmax_of" : "argmin_of";
    helpers_.insert(function);
    const std::string place =
        mask.empty() ? numbers() : "tl.where(" + mask + ", " + numbers() + ", 2147483647)";
    writer_.line(name + ", " + name + "_places = " + function + "(" + name + ", " + name +
                 "_places, " + value + ", " + place + ")");
    return;
  }
  const bool is_float = graph::is_float(s.accumulate);
  const auto called = [&](const std::string& function) {
    if (!function.starts_with("tl.")) helpers_.insert(function);
    writer_.line(name + " = " + function + "(" + name + ", " + value + ")");
  };
  const std::string suffix = s.accumulate == DType::kFloat64 ? "_f64" : "";
  switch (s.op) {
    case ReduceOp::kSum:
      return writer_.line(name + " += " + value);
    case ReduceOp::kProd:
      return writer_.line(name + " *= " + value);
    case ReduceOp::kMax:
      return called(is_float ? "maximum" + suffix : "tl.maximum");
    case ReduceOp::kMin:
      return called(is_float ? "minimum" + suffix : "tl.minimum");
    case ReduceOp::kAny:
      return called("tl.maximum");
    case ReduceOp::kAll:
      return called("tl.minimum");
    case ReduceOp::kArgMax:
    case ReduceOp::kArgMin:
    case ReduceOp::kWelford:
      break;
  }
  BRAZE_UNREACHABLE("reduction");
}

void ReductionWriter::end(const Statement& s) {
  if (const auto joined = nest_.soft_sums.find(&s); joined != nest_.soft_sums.end())
    return end_exponentials(s, *joined->second);
  const std::string name = accumulator(s), own = result(s);
  if (s.op == ReduceOp::kWelford) {
    writer_.line(own + "_mean, " + own + "_m2, " + own +
                 "_count = " + reduced(s, "(" + name + ", " + name + "_m2, " + name + "_count)"));
    return bind_welford(s, own + "_mean", own + "_m2", own + "_count");
  }
  if (is_arg(s)) {
    writer_.line(own + ", " + own +
                 "_place = " + reduced(s, "(" + name + ", " + name + "_places)"));
    bind(s, own);
    return writer_.bind_result(s.reduced, 0, own + "_place");
  }
  bind(s, reduced(s, name));
}

// Behind all elements: where all are minus infinity, each distance is not a number.
void ReductionWriter::end_exponentials(const Statement& sum, const Statement& top) {
  const std::string name = accumulator(top), distance = name + " - " + result(top);
  const std::string function = of_halves(top) ? "tl.exp(" : "libdevice.exp(";
  writer_.line(result(sum) + " = " + over("tl.sum", name + "_sum * " + function + distance + ")"));
  writer_.bind_result(sum.reduced, 0, result(sum));
}

}  // namespace braze::codegen::triton
