#include <algorithm>
#include <cmath>
#include <numbers>

#include "graph/interpreter/interpreter.h"
#include "graph/op_kind.h"

namespace braze::graph::interpreter {
namespace {

using Numbers = std::vector<Number>;

Number real(double value) { return Number::of(value); }

// The lowest integer is its own negative.
int64_t wrapping_minus(int64_t x) { return static_cast<int64_t>(-static_cast<uint64_t>(x)); }

double unary_real(OpKind kind, double x, bool& known) {
  switch (kind) {
    case OpKind::kexp:
      return std::exp(x);
    case OpKind::kexp2:
      return std::exp2(x);
    case OpKind::kexpm1:
      return std::expm1(x);
    case OpKind::klog:
      return std::log(x);
    case OpKind::klog2:
      return std::log2(x);
    case OpKind::klog10:
      return std::log10(x);
    case OpKind::klog1p:
      return std::log1p(x);
    case OpKind::ksqrt:
      return std::sqrt(x);
    case OpKind::krsqrt:
      return 1 / std::sqrt(x);
    case OpKind::ksin:
      return std::sin(x);
    case OpKind::kcos:
      return std::cos(x);
    case OpKind::ktan:
      return std::tan(x);
    case OpKind::kasin:
      return std::asin(x);
    case OpKind::kacos:
      return std::acos(x);
    case OpKind::katan:
      return std::atan(x);
    case OpKind::ksinh:
      return std::sinh(x);
    case OpKind::kcosh:
      return std::cosh(x);
    case OpKind::ktanh:
      return std::tanh(x);
    case OpKind::kerf:
      return std::erf(x);
    case OpKind::kerfc:
      return std::erfc(x);
    case OpKind::ksigmoid:
      return 1 / (1 + std::exp(-x));
    case OpKind::kreciprocal:
      return 1 / x;
    case OpKind::ksilu:
      return x / (1 + std::exp(-x));
    case OpKind::khardsigmoid:
      return std::clamp(x + 3, 0.0, 6.0) / 6;
    case OpKind::khardswish:
      return x * std::clamp(x + 3, 0.0, 6.0) / 6;
    case OpKind::kmish:
      return x * std::tanh(std::log1p(std::exp(x)));
    case OpKind::klog_sigmoid_forward:
      return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x)));
    default:
      known = false;
      return 0;
  }
}

double gelu(double x, bool tanh) {
  if (!tanh) return x * 0.5 * (1 + std::erf(x / std::numbers::sqrt2));
  const double beta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  return 0.5 * x * (1 + std::tanh(beta * (x + 0.044715 * x * x * x)));
}

// Activations with parameters; `x` is the element, parameters are read from the call.
double activation(const Call& call, double x, bool& known) {
  switch (call.kind) {
    case OpKind::kgelu:
      return gelu(x, !call.is_none(1) && std::get<std::string>(call.arg(1)) == "tanh");
    case OpKind::kleaky_relu:
      return x > 0 ? x : x * call.number(1, 0.01);
    case OpKind::kelu: {
      const double scale = call.number(2, 1);
      return x < 0 ? std::expm1(x * call.number(3, 1)) * (call.number(1, 1) * scale) : x * scale;
    }
    case OpKind::ksoftplus: {
      const double beta = call.number(1, 1);
      return x * beta > call.number(2, 20) ? x : std::log1p(std::exp(x * beta)) / beta;
    }
    case OpKind::khardtanh:
      return std::clamp(x, call.number(1, -1), call.number(2, 1));
    case OpKind::kthreshold:
      return x <= call.number(1, 0) ? call.number(2, 0) : x;
    default:
      return unary_real(call.kind, x, known);
  }
}

template <class F, class I>
Number arithmetic(Number a, Number b, F&& on_reals, I&& on_integers) {
  if (a.real) return real(on_reals(a.f, b.f));
  return Number::of(
      static_cast<int64_t>(on_integers(static_cast<uint64_t>(a.i), static_cast<uint64_t>(b.i))));
}

int compare(Number a, Number b) {  // 2: unordered
  if (!a.real) return a.i < b.i ? -1 : a.i > b.i;
  if (std::isnan(a.f) || std::isnan(b.f)) return 2;
  return a.f < b.f ? -1 : a.f > b.f;
}

Number extremum(Number a, Number b, int sign) {
  const int order = compare(a, b);
  if (order == 2) return std::isnan(a.f) ? a : b;
  return order * sign >= 0 ? a : b;
}

Number power(Number a, Number b) {
  if (a.real) return real(std::pow(a.f, b.f));
  uint64_t result = 1;
  for (int64_t i = 0; i < b.i; ++i) result *= static_cast<uint64_t>(a.i);
  return Number::of(static_cast<int64_t>(result));
}

int64_t floor_divided(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

// One element from the elements of the arguments, which are in the compute dtype.
Number apply(const Call& call, const Numbers& x, DType dtype, bool& known) {
  auto scaled = [&](int i) {
    Number alpha = convert(real(call.number(2, 1)), dtype);
    return convert(arithmetic(x[i], alpha, std::multiplies<>(), std::multiplies<>()), dtype);
  };
  switch (call.kind) {
    case OpKind::kclone:
    case OpKind::k_to_copy:
    case OpKind::kcopy_strided:
      return x[0];
    case OpKind::kabs:
      return x[0].real ? real(std::abs(x[0].f))
                       : Number::of(x[0].i < 0 ? wrapping_minus(x[0].i) : x[0].i);
    case OpKind::kneg:
      return x[0].real ? real(-x[0].f) : Number::of(wrapping_minus(x[0].i));
    case OpKind::kfloor:
      return x[0].real ? real(std::floor(x[0].f)) : x[0];
    case OpKind::kceil:
      return x[0].real ? real(std::ceil(x[0].f)) : x[0];
    case OpKind::ktrunc:
      return x[0].real ? real(std::trunc(x[0].f)) : x[0];
    case OpKind::kround:
      return x[0].real ? real(std::nearbyint(x[0].f)) : x[0];
    case OpKind::krelu:
      return compare(x[0], convert(real(0), dtype)) < 0 ? Number::of(int64_t{0}) : x[0];
    case OpKind::ksquare:
      return arithmetic(x[0], x[0], std::multiplies<>(), std::multiplies<>());
    case OpKind::klogical_not:
      return Number::of(!x[0].as_bool());
    case OpKind::kisnan:
      return Number::of(x[0].real && std::isnan(x[0].f));
    case OpKind::kadd_Tensor:
    case OpKind::kadd_Scalar:
      if (dtype == DType::kBool) return Number::of(x[0].as_bool() || x[1].as_bool());
      return arithmetic(x[0], scaled(1), std::plus<>(), std::plus<>());
    case OpKind::ksub_Tensor:
    case OpKind::ksub_Scalar:
      return arithmetic(x[0], scaled(1), std::minus<>(), std::minus<>());
    case OpKind::krsub_Tensor:
    case OpKind::krsub_Scalar:
      return arithmetic(x[1], scaled(0), std::minus<>(), std::minus<>());
    case OpKind::kmul_Tensor:
    case OpKind::kmul_Scalar:
      return arithmetic(x[0], x[1], std::multiplies<>(), std::multiplies<>());
    case OpKind::kdiv_Tensor:
    case OpKind::kdiv_Scalar:
      return real(x[0].f / x[1].f);
    case OpKind::kfloor_divide:
    case OpKind::kfloor_divide_Scalar:
      known = !x[0].real && x[1].i != 0;
      return Number::of(known ? floor_divided(x[0].i, x[1].i) : 0);
    case OpKind::kpow_Scalar:
    case OpKind::kpow_Tensor_Scalar:
    case OpKind::kpow_Tensor_Tensor:
      return power(x[0], x[1]);
    case OpKind::kmaximum:
      return extremum(x[0], x[1], 1);
    case OpKind::kminimum:
      return extremum(x[0], x[1], -1);
    case OpKind::kclamp_min:
      return extremum(x[0], x[1], 1);
    case OpKind::kclamp_max:
      return extremum(x[0], x[1], -1);
    case OpKind::kclamp: {
      Number value = x[0];
      if (!call.is_none(1)) value = extremum(value, x[1], 1);
      return call.is_none(2) ? value : extremum(value, x[2], -1);
    }
    case OpKind::keq_Tensor:
    case OpKind::keq_Scalar:
      return Number::of(compare(x[0], x[1]) == 0);
    case OpKind::kne_Tensor:
    case OpKind::kne_Scalar:
      return Number::of(compare(x[0], x[1]) != 0);
    case OpKind::klt_Tensor:
    case OpKind::klt_Scalar:
      return Number::of(compare(x[0], x[1]) == -1);
    case OpKind::kle_Tensor:
    case OpKind::kle_Scalar:
      return Number::of(compare(x[0], x[1]) <= 0);
    case OpKind::kgt_Tensor:
    case OpKind::kgt_Scalar:
      return Number::of(compare(x[0], x[1]) == 1);
    case OpKind::kge_Tensor:
    case OpKind::kge_Scalar:
      return Number::of(compare(x[0], x[1]) == 0 || compare(x[0], x[1]) == 1);
    case OpKind::klogical_and:
      return Number::of(x[0].as_bool() && x[1].as_bool());
    case OpKind::klogical_or:
      return Number::of(x[0].as_bool() || x[1].as_bool());
    case OpKind::kwhere_self:
      return x[0].as_bool() ? x[1] : x[2];
    case OpKind::kmasked_fill_Scalar:
    case OpKind::kmasked_fill_Tensor:
      return x[1].as_bool() ? x[2] : x[0];
    case OpKind::kaddcmul:
      if (!x[0].real) return Number::of(x[0].i + call.integer(3, 1) * x[1].i * x[2].i);
      return real(x[0].f + call.number(3, 1) * x[1].f * x[2].f);
    case OpKind::kaddcdiv:
      return real(x[0].f + call.number(3, 1) * x[1].f / x[2].f);
    case OpKind::klerp_Scalar:
    case OpKind::klerp_Tensor: {
      const double weight = x[2].f, difference = x[1].f - x[0].f;
      return real(std::abs(weight) < 0.5 ? x[0].f + weight * difference
                                         : x[1].f - difference * (1 - weight));
    }
    default:
      return real(activation(call, x[0].as_double(), known));
  }
}

// The dtype in which elements are combined.
DType compute_dtype(const Call& call) {
  switch (call.kind) {
    case OpKind::keq_Tensor:
    case OpKind::kne_Tensor:
    case OpKind::klt_Tensor:
    case OpKind::kle_Tensor:
    case OpKind::kgt_Tensor:
    case OpKind::kge_Tensor:
    case OpKind::keq_Scalar:
    case OpKind::kne_Scalar:
    case OpKind::klt_Scalar:
    case OpKind::kle_Scalar:
    case OpKind::kgt_Scalar:
    case OpKind::kge_Scalar:
    case OpKind::klogical_not:
    case OpKind::klogical_and:
    case OpKind::klogical_or:
    case OpKind::kisnan:
      // Wide enough for every dtype that compares; only the kinds matter.
      for (const TensorArgument& argument : call.args) {
        const auto* tensor = std::get_if<Tensor>(&argument);
        const bool is_real =
            tensor ? is_float(tensor->type.dtype) : std::holds_alternative<double>(argument);
        if (is_real) return DType::kFloat64;
      }
      return DType::kInt64;
    default:
      return call.results[0].type.dtype;
  }
}

// The element of an argument at an index of the result.
Number element(const TensorArgument& argument, std::span<const int64_t> index) {
  if (auto* value = std::get_if<sym::Int>(&argument)) return Number::of(value->constant());
  if (auto* value = std::get_if<double>(&argument)) return real(*value);
  if (auto* value = std::get_if<bool>(&argument)) return Number::of(*value);
  auto* tensor = std::get_if<Tensor>(&argument);
  if (!tensor) return real(0);
  const size_t missing = index.size() - tensor->type.sizes.size();
  std::vector<int64_t> own(index.begin() + static_cast<int64_t>(missing), index.end());
  for (size_t i = 0; i < own.size(); ++i) {
    if (tensor->type.sizes[i].constant() == 1) own[i] = 0;
  }
  return tensor->get(own);
}

bool is_selector(OpKind kind, size_t i) {
  return (kind == OpKind::kwhere_self && i == 0) ||
         ((kind == OpKind::kmasked_fill_Scalar || kind == OpKind::kmasked_fill_Tensor) && i == 1);
}

}  // namespace

bool run_pointwise(Call& call) {
  if (!op_of(call.kind).pointwise) return false;
  const DType dtype = compute_dtype(call);
  bool known = true;
  Tensor& result = call.results[0];
  for_each_index(result.type.sizes, [&](std::span<const int64_t> index) {
    Numbers x;
    for (size_t i = 0; i < std::min<size_t>(call.args.size(), 3); ++i) {
      const Number number = element(call.args[i], index);
      x.push_back(is_selector(call.kind, i) ? number : convert(number, dtype));
    }
    result.set(index, apply(call, x, dtype, known));
  });
  return known;
}

}  // namespace braze::graph::interpreter
