#include "passes/counter_random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "graph/arguments.h"
#include "graph/devices.h"
#include "graph/infer/strides.h"
#include "graph/op_kind.h"
#include "passes/aliasing.h"
#include "passes/decompose_rules.h"

namespace braze::passes {
namespace {

using graph::Argument;
using graph::DType;
using graph::Emitter;
using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::TensorType;
using graph::Value;
using sym::Int;

constexpr int64_t kSeeds = std::numeric_limits<int64_t>::max();

bool is_wide(DType dtype) { return graph::size_of(dtype) == 8; }

// How many offsets a node of braze.random takes.
int64_t offsets_of(DType dtype) { return is_wide(dtype) ? 2 : 1; }

// Seeds by device, and the offsets that are still free.
class Streams {
 public:
  explicit Streams(const Graph& graph) {
    for (const auto& node : graph.nodes()) {
      if (draws_seed(*node)) seeds_.push_back(node->result());
      if (node->op().kind == OpKind::kbraze_random)
        next_ =
            std::max(next_, graph::int_arg(*node, 1) + offsets_of(node->result()->type().dtype));
    }
  }

  // The seed of a device. It is drawn in front of the first operator that asks for it.
  Value* seed(Emitter& emit, graph::Device device) {
    for (Value* seed : seeds_)
      if (graph::same_device(seed->type().device, device)) return seed;
    seeds_.push_back(emit(OpKind::krandint_low, {Int(0), Int(kSeeds), sym::Dims{}, DType::kInt64,
                                                 graph::None{}, device, false}));
    return seeds_.back();
  }

  int64_t take(int64_t count) { return std::exchange(next_, next_ + count); }

 private:
  std::vector<Value*> seeds_;
  int64_t next_ = 0;
};

// An operator that is to be replaced. A formula looks at all of its arguments before it asks for
// numbers: an operator for which it has asked is replaced.
class Draw {
 public:
  Draw(Streams& streams, Emitter& emit, const Node& node)
      : node(node), emit(emit), type(node.result()->type()), streams_(streams) {}

  const Node& node;
  Emitter& emit;
  const TensorType& type;  // of the first result

  // The dtype that floats are computed in: double for results that float32 cannot hold.
  DType precision() const {
    return type.dtype == DType::kFloat64 || graph::is_integral(type.dtype, true) ? DType::kFloat64
                                                                                 : DType::kFloat32;
  }

  // Of a float dtype: in [0, 1). Of an integer: any bits.
  Value* numbers(DType dtype) {
    Value* seed = streams_.seed(emit, type.device);
    const int64_t offset = streams_.take(offsets_of(dtype));
    return emit(OpKind::kbraze_random, {seed, Int(offset), type.sizes, dtype});
  }

  // 1 - numbers(dtype), exact, in (0, 1].
  Value* complement(DType dtype) { return emit.add(emit.unary(OpKind::kneg, numbers(dtype)), 1.0); }

  // Box, Muller, "A note on the generation of random normal deviates", 1958: of the two the sine,
  // whose angle may as well lie between a quarter turn back and one forth.
  Value* standard_normal() {
    const DType dtype = precision();
    Value* radius =
        emit.unary(OpKind::ksqrt, emit.mul(emit.unary(OpKind::klog, complement(dtype)), -2.0));
    Value* turn = emit.add(emit.mul(numbers(dtype), 2.0), -1.0);
    return emit.mul(radius, sine_of_quarter_turns(turn));
  }

  Value* normal(double mean, double std) {
    return emit.add(emit.mul(standard_normal(), std), mean);
  }

 private:
  // sin(pi/2 * x) for x from -1 to 1. In single precision by its Taylor series up to x^13, which is
  // off by less than 1e-9 there: a sine of any argument takes several times as long.
  Value* sine_of_quarter_turns(Value* x) {
    constexpr double kQuarter = std::numbers::pi / 2;
    if (precision() == DType::kFloat64) return emit.unary(OpKind::ksin, emit.mul(x, kQuarter));
    constexpr int kTerms = 7;
    double coefficients[kTerms] = {kQuarter};
    for (int i = 1; i < kTerms; ++i)
      coefficients[i] = -coefficients[i - 1] * kQuarter * kQuarter / (2 * i * (2 * i + 1));
    Value* square = emit.mul(x, x);
    Value* sum = emit.mul(square, coefficients[kTerms - 1]);
    for (int i = kTerms - 2; i > 0; --i) sum = emit.mul(square, emit.add(sum, coefficients[i]));
    return emit.mul(x, emit.add(sum, coefficients[0]));
  }

  Streams& streams_;
};

// A number that the operator has at this place; nothing for a tensor, for one that is left out.
std::optional<double> number_at(const Draw& draw, int i) {
  const graph::ArgumentList args = draw.node;
  if (!graph::is_scalar(args[i]) || graph::scalar_kind(args[i]) == graph::DTypeKind::kComplex)
    return std::nullopt;
  if (auto* integer = std::get_if<Int>(&args[i]); integer && !integer->is_constant())
    return std::nullopt;
  return graph::scalar_to_double(args[i]);
}

std::optional<int64_t> integer_at(const Draw& draw, int i) {
  const graph::ArgumentList args = draw.node;
  auto* integer = std::get_if<Int>(&args[i]);
  return integer && integer->is_constant() ? std::optional(integer->constant()) : std::nullopt;
}

bool is_probability(std::optional<double> p) { return p && *p >= 0 && *p <= 1; }

Replacement rand(Draw& draw) {
  if (!graph::is_float(draw.type.dtype)) return {};
  return {draw.numbers(draw.type.dtype)};
}

Replacement randn(Draw& draw) {
  if (!graph::is_float(draw.type.dtype)) return {};
  return {draw.standard_normal()};
}

// Whether all integers from low to high are numbers of the dtype.
bool holds(DType dtype, int64_t low, int64_t high) {
  const int64_t bits = 8 * graph::size_of(dtype);
  switch (dtype) {
    case DType::kBool:
      return low >= 0 && high <= 1;
    case DType::kUInt8:
      return low >= 0 && high <= 255;
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
      return low >= -(int64_t{1} << (bits - 1)) && high < int64_t{1} << (bits - 1);
    case DType::kInt64:
      return true;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64: {
      const int digits = dtype == DType::kFloat16    ? 11
                         : dtype == DType::kBFloat16 ? 8
                         : dtype == DType::kFloat32  ? 24
                                                     : 53;
      return low >= -(int64_t{1} << digits) && high <= int64_t{1} << digits;
    }
    case DType::kComplex64:
    case DType::kComplex128:
      break;
  }
  return false;
}

// From low to high, both included. Remainders of words: a value is more frequent than another by
// less than 1 in 2^8, and that only where there are near 2^24 or 2^54 of them.
Replacement integers(Draw& draw, int64_t low, int64_t high) {
  constexpr int64_t kFewValues = int64_t{1} << 24, kMostValues = int64_t{1} << 54;
  if (low > high || !holds(draw.type.dtype, low, high)) return {};
  const uint64_t distance = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  Emitter& emit = draw.emit;
  const auto masked = [&](Value* bits, int64_t mask) {
    return emit(OpKind::kbitwise_and_Scalar, {bits, Int(mask)});
  };
  if (low == 0 && high == kSeeds) return {masked(draw.numbers(DType::kInt64), kSeeds)};
  if (distance > kMostValues) return {};
  const int64_t count = static_cast<int64_t>(distance) + 1;
  Value* bits = count <= kFewValues
                    ? masked(emit.cast(draw.numbers(DType::kInt32), DType::kInt64), 0xffffffff)
                    : masked(draw.numbers(DType::kInt64), kSeeds);
  return {emit.add(emit(OpKind::kremainder_Scalar, {bits, Int(count)}), Int(low))};
}

// Integers from the argument at `low_place` (0 if negative) to below that at `high_place`.
Replacement integers_at(Draw& draw, int low_place, int high_place) {
  const std::optional<int64_t> low = low_place < 0 ? 0 : integer_at(draw, low_place);
  const std::optional<int64_t> high = integer_at(draw, high_place);
  if (!low || !high || *low >= *high) return {};
  return integers(draw, *low, *high - 1);
}

// high, size; self, high
Replacement randint(Draw& draw) { return integers_at(draw, -1, 0); }
Replacement randint_low(Draw& draw) { return integers_at(draw, 0, 1); }
Replacement integers_below(Draw& draw) { return integers_at(draw, -1, 1); }
Replacement integers_between(Draw& draw) { return integers_at(draw, 1, 2); }

// All that random_() gives: integers that the dtype counts without a gap, from 0 up.
Replacement all_integers(Draw& draw) {
  switch (draw.type.dtype) {
    case DType::kBool:
      return integers(draw, 0, 1);
    case DType::kUInt8:
      return integers(draw, 0, 255);
    case DType::kInt8:
      return integers(draw, 0, 127);
    case DType::kInt16:
      return integers(draw, 0, 32767);
    case DType::kInt32:
      return integers(draw, 0, std::numeric_limits<int32_t>::max());
    case DType::kInt64:
      return integers(draw, 0, kSeeds);
    case DType::kFloat16:
      return integers(draw, 0, 1 << 11);
    case DType::kBFloat16:
      return integers(draw, 0, 1 << 8);
    case DType::kFloat32:
      return integers(draw, 0, 1 << 24);
    case DType::kFloat64:
      return integers(draw, 0, int64_t{1} << 53);
    case DType::kComplex64:
    case DType::kComplex128:
      break;
  }
  return {};
}

Value* below(Draw& draw, double p) {
  const DType dtype = draw.type.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  return draw.emit(OpKind::klt_Scalar, {draw.numbers(dtype), p});
}

// self, p
Replacement bernoulli_p(Draw& draw) {
  const std::optional<double> p = number_at(draw, 1);
  if (!is_probability(p) || graph::is_complex(draw.type.dtype)) return {};
  return {below(draw, *p)};
}

// By a tensor of probabilities, which are checked: eager refuses others.
Replacement bernoulli_of(Draw& draw, Value* p) {
  if (!graph::is_float(p->type().dtype) || graph::is_complex(draw.type.dtype)) return {};
  Emitter& emit = draw.emit;
  Value* each = in_compute_dtype(emit, p);
  Value* inside = emit(OpKind::klogical_and, {emit(OpKind::kge_Scalar, {each, 0.0}),
                                              emit(OpKind::kle_Scalar, {each, 1.0})});
  emit.graph().add_node(graph::find_or_add_op("aten._assert_async.msg"),
                        {emit.unary(OpKind::kall, inside),
                         std::string("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")},
                        {}, draw.node.origin(), emit.before());
  return {emit(OpKind::klt_Tensor, {draw.numbers(each->type().dtype), each})};
}

Replacement bernoulli(Draw& draw) { return bernoulli_of(draw, graph::tensor_arg(draw.node, 0)); }

// self, p
Replacement bernoulli_tensor(Draw& draw) {
  Value* p = graph::tensor_arg(draw.node, 1);
  if (p->type().sizes.size() > draw.type.sizes.size()) return {};
  return bernoulli_of(draw, p);
}

// input, p, train
Replacement native_dropout(Draw& draw) {
  Value* input = graph::tensor_arg(draw.node, 0);
  const std::optional<double> p = number_at(draw, 1);
  if (!is_probability(p) || !graph::bool_arg_or(draw.node, 2, true) ||
      !graph::is_float(draw.type.dtype))
    return {};
  Emitter& emit = draw.emit;
  const double kept = 1 - *p;
  Value* mask = below(draw, kept);
  Value* left = emit.mul(in_compute_dtype(emit, input), emit.cast(mask, draw.precision()));
  return {emit.mul(left, kept == 0 ? 0.0 : 1 / kept), mask};
}

// mean, std, size; self, mean, std
Replacement normal_of(Draw& draw, int mean_place) {
  const std::optional<double> mean = number_at(draw, mean_place);
  const std::optional<double> std = number_at(draw, mean_place + 1);
  if (!mean || !std || !(*std >= 0) || !graph::is_float(draw.type.dtype)) return {};
  return {draw.normal(*mean, *std)};
}
Replacement normal_of_numbers(Draw& draw) { return normal_of(draw, 0); }
Replacement normal_in_place(Draw& draw) { return normal_of(draw, 1); }

// mean, a tensor, and std
Replacement normal_around(Draw& draw) {
  const std::optional<double> std = number_at(draw, 1);
  if (!std || !(*std >= 0) || !graph::is_float(draw.type.dtype)) return {};
  Value* mean = in_compute_dtype(draw.emit, graph::tensor_arg(draw.node, 0));
  return {draw.emit.add(draw.emit.mul(draw.standard_normal(), *std), mean)};
}

// self, from, to
Replacement uniform(Draw& draw) {
  const std::optional<double> from = number_at(draw, 1), to = number_at(draw, 2);
  if (!from || !to || !(*from <= *to) || !std::isfinite(*to - *from) ||
      !graph::is_float(draw.type.dtype))
    return {};
  Value* numbers = in_compute_dtype(draw.emit, draw.numbers(draw.type.dtype));
  return {draw.emit.add(draw.emit.mul(numbers, *to - *from), *from)};
}

// Arguments: self, lambda. Never 0, as programs often take the logarithm.
Replacement exponential(Draw& draw) {
  const std::optional<double> rate = number_at(draw, 1);
  if (!rate || !(*rate > 0) || !std::isfinite(*rate) || !graph::is_float(draw.type.dtype))
    return {};
  const DType dtype = draw.precision();
  const double least = dtype == DType::kFloat64 ? 0x1p-54 : 0x1p-25;
  Emitter& emit = draw.emit;
  Value* numbers = emit.unary(OpKind::kneg, emit.unary(OpKind::klog, draw.complement(dtype)));
  return {emit.div(emit(OpKind::kclamp, {numbers, least, graph::None{}}), *rate)};
}

// self, median, sigma
Replacement cauchy(Draw& draw) {
  const std::optional<double> median = number_at(draw, 1), sigma = number_at(draw, 2);
  if (!median || !sigma || !(*sigma > 0) || !graph::is_float(draw.type.dtype)) return {};
  Emitter& emit = draw.emit;
  Value* angle = emit.mul(emit.add(draw.numbers(draw.precision()), -0.5), std::numbers::pi);
  return {emit.add(emit.mul(emit.unary(OpKind::ktan, angle), *sigma), *median)};
}

// self, p: how many trials until the first success.
Replacement geometric(Draw& draw) {
  const std::optional<double> p = number_at(draw, 1);
  if (!p || !(*p > 0 && *p < 1) || graph::is_complex(draw.type.dtype)) return {};
  Emitter& emit = draw.emit;
  Value* log = emit.unary(OpKind::klog, draw.complement(draw.precision()));
  return {emit.add(emit.unary(OpKind::kfloor, emit.div(log, std::log1p(-*p))), 1.0)};
}

// self, mean, std
Replacement log_normal(Draw& draw) {
  const std::optional<double> mean = number_at(draw, 1), std = number_at(draw, 2);
  if (!mean || !std || !(*std > 0) || !graph::is_float(draw.type.dtype)) return {};
  return {draw.emit.unary(OpKind::kexp, draw.normal(*mean, *std))};
}

struct Formula {
  std::string_view op;
  Replacement (*write)(Draw&);
  int generator = -1;  // its place among the arguments
};

constexpr Formula kFormulas[] = {
    {"aten.rand", rand},
    {"aten.rand_like", rand},
    {"aten.randn", randn},
    {"aten.randn_like", randn},
    {"aten.randint", randint},
    {"aten.randint.low", randint_low},
    {"aten.randint_like", integers_below},
    {"aten.randint_like.low_dtype", integers_between},
    {"aten.bernoulli", bernoulli, 1},
    {"aten.bernoulli.p", bernoulli_p, 2},
    {"aten.bernoulli.Tensor", bernoulli_tensor, 2},
    {"aten.native_dropout", native_dropout},
    {"aten.normal.float_float", normal_of_numbers, 3},
    {"aten.normal.Tensor_float", normal_around, 2},
    {"aten.normal_functional", normal_in_place, 3},
    {"aten.uniform", uniform, 3},
    {"aten.exponential", exponential, 2},
    {"aten.cauchy", cauchy, 3},
    {"aten.geometric", geometric, 2},
    {"aten.log_normal", log_normal, 3},
    {"aten.random", all_integers, 1},
    {"aten.random.from", integers_between, 3},
    {"aten.random.to", integers_below, 2},
};

const Formula* formula_of(const Node& node) {
  if (!node.op().effects.random || draws_seed(node)) return nullptr;
  const auto found = std::ranges::find(kFormulas, node.op().name, &Formula::op);
  return found == std::end(kFormulas) ? nullptr : found;
}

bool has_fresh_results(const Node& node) {
  return !node.results().empty() && std::ranges::all_of(node.results(), [](const Value* result) {
    return result && !graph::may_overlap_itself(result->type());
  });
}

bool rewrite(Graph& graph, Streams& streams, Node* node) {
  const Formula* formula = formula_of(*node);
  if (!formula || !has_fresh_results(*node)) return false;
  if (formula->generator >= 0 && !graph::is_none(*node, formula->generator)) return false;
  Emitter emit(graph, node);
  Draw draw(streams, emit, *node);
  const Replacement replacement = formula->write(draw);
  if (replacement.empty()) return false;
  for (size_t i = 0; i < node->results().size(); ++i) {
    Value* result = node->results()[i];
    if (!graph.has_uses(result)) continue;
    Value* made = with_type(emit, replacement[i], result->type());
    BRAZE_CHECK(made, "no copy gives ", graph::to_string(result->type()));
    graph.replace_all_uses(result, made);
  }
  graph.erase(node);
  return true;
}

}  // namespace

bool draws_seed(const Node& node) {
  if (node.op().kind != OpKind::krandint_low || node.result()->type().rank() != 0) return false;
  return graph::is_number(node.args()[0], 0) && node.args()[1] == Argument(Int(kSeeds)) &&
         node.result()->type().dtype == DType::kInt64;
}

bool use_counter_random(Graph& graph) {
  Streams streams(graph);
  bool changed = false;
  for (auto place = graph.nodes().begin(); place != graph.nodes().end();) {
    Node* node = (place++)->get();
    changed |= rewrite(graph, streams, node);
  }
  if (changed) recompute_storages(graph);  // Views of what was drawn are views of what is computed.
  return changed;
}

}  // namespace braze::passes
