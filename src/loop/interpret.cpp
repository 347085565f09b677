#include <cmath>
#include <limits>

#include "graph/infer/promotion.h"
#include "loop/program.h"
#include "loop/scalar.h"

namespace braze::loop {
namespace {

struct IndexError {};

// The partial result of a reduction. Of a scan, `value` is what it was at the point before,
// `position` what it is at this one, and `count` the place of that.
struct Accumulator {
  Scalar value, position;
  double mean = 0, m2 = 0;
  int64_t count = 0;
};

class Interpreter {
 public:
  Interpreter(const Kernel& kernel, std::span<void* const> params, std::span<const int64_t> symbols)
      : kernel_(kernel), params_(params), symbols_(symbols) {
    BRAZE_CHECK(params.size() == kernel.params.size(), "parameters of ", kernel.name);
    for (const Axis& axis : kernel.outer) extents_.push_back(sym::evaluate(axis.extent, symbols));
    for (const Axis& axis : kernel.inner) extents_.push_back(sym::evaluate(axis.extent, symbols));
    point_.resize(extents_.size());
    for (const Statement& s : kernel.body) {
      collect(s.index);
      collect(s.value);
      if (!s.is_store())
        results_.resize(std::max(results_.size(), static_cast<size_t>(s.reduced) + 1));
    }
  }

  void run() {
    for (const Statement& s : kernel_.body)
      if (s.is_part())
        for (int64_t i = 0; i < s.parts * inner_points(); ++i)
          store(s.value->dtype, params_[s.buffer], i, {});
    for_each_point(0, kernel_.outer.size(), [&] {
      for (const Statement& s : kernel_.body) run(s);
    });
  }

 private:
  struct Slot {
    Scalar value;
    int64_t time = -1;
  };

  void collect(ExprRef e) {
    if (!e || !slots_.emplace(e, Slot{}).second) return;
    for (ExprRef arg : e->args) collect(arg);
  }

  int64_t inner_points() const {
    int64_t points = 1;
    for (size_t axis = kernel_.outer.size(); axis < extents_.size(); ++axis)
      points *= extents_[axis];
    return points;
  }
  int64_t outer_number() const {
    int64_t number = 0;
    for (size_t axis = 0; axis < kernel_.outer.size(); ++axis)
      number = number * extents_[axis] + point_[axis];
    return number;
  }

  template <class Body>
  void for_each_point(size_t first, size_t last, const Body& body) {
    if (first == last) return body();
    for (point_[first] = 0; point_[first] < extents_[first]; ++point_[first])
      for_each_point(first + 1, last, body);
  }

  void run(const Statement& s) {
    switch (s.kind) {
      case Statement::Kind::kReduce:
        return reduce(s);
      case Statement::Kind::kScan:
        return;  // done anew for each statement that sees it
      case Statement::Kind::kStore:
        break;
    }
    if (!s.inner) {
      ++time_;
      return store_one(s);
    }
    for_each_inner_point(s, [&] { store_one(s); });
  }

  void store_one(const Statement& s) {
    const DType dtype = kernel_.params[s.buffer].dtype;
    void* const base = params_[s.buffer];
    int64_t index = evaluate(s.index).i;
    if (s.is_part()) index += outer_number() % s.parts * inner_points();
    Scalar value = evaluate(s.value);
    if (s.combines() || s.is_part()) {
      const Scalar operands[] = {load(dtype, base, index), value};
      const DType compute = graph::compute_dtype(dtype);
      value = apply(combination(s.store), compute, operands);
    }
    store(dtype, base, index, value);
  }

  // The inner points of one statement, and at each of them the scans that come before it.
  template <class Body>
  void for_each_inner_point(const Statement& s, const Body& body) {
    for (const Statement& other : kernel_.body)
      if (other.is_recurrence())
        results_[other.reduced].value = {other.initial->ival, other.initial->fval};
    int64_t number = 0;
    for_each_point(kernel_.outer.size(), extents_.size(), [&] {
      ++time_;
      for (const Statement* scan = kernel_.body.data(); scan != &s; ++scan)
        if (scan->is_scan()) advance(*scan, results_[scan->reduced], number);
      ++number;
      body();
      for (const Statement* scan = kernel_.body.data(); scan != &s; ++scan)
        if (scan->is_scan()) results_[scan->reduced].value = results_[scan->reduced].position;
    });
  }

  // A scan at point `number`.
  void advance(const Statement& s, Accumulator& acc, int64_t number) {
    const Scalar x = evaluate(s.value), before = acc.value;
    acc.position = x;
    if (s.is_recurrence()) return;
    if (number > 0 && s.finds_place()) {
      const Scalar ordered[] = {s.scan == ScanOp::kMax ? before : x,
                                s.scan == ScanOp::kMax ? x : before};
      if (!std::isnan(x.f) && !apply(ExprKind::kLe, s.accumulate, ordered).i) {
        acc.position = before;
        return;
      }
    } else if (number > 0) {
      acc.position = combined(s, before, x);
    }
    acc.count = number;
  }

  static Scalar combined(const Statement& s, Scalar before, Scalar x) {
    const Scalar both[] = {before, x};
    if (s.scan == ScanOp::kSum) return apply(ExprKind::kAdd, s.accumulate, both);
    if (s.scan == ScanOp::kProd) return apply(ExprKind::kMul, s.accumulate, both);
    const double low = apply(ExprKind::kMin, s.accumulate, both).f;
    const double high = apply(ExprKind::kMax, s.accumulate, both).f;
    if (low == high && std::isinf(low)) return x;
    return {0, round_to(s.accumulate, high + std::log1p(std::exp(low - high)))};
  }

  void reduce(const Statement& s) {
    Accumulator acc;
    acc.value = {s.op == ReduceOp::kProd || s.op == ReduceOp::kAll,
                 s.op == ReduceOp::kProd ? 1.0 : 0};
    int64_t position = 0;
    for_each_inner_point(s, [&] { accumulate(s, acc, evaluate(s.value), position++); });
    if (s.accumulate == DType::kFloat32) acc.value.f = static_cast<float>(acc.value.f);
    results_[s.reduced] = acc;
  }

  static void accumulate(const Statement& s, Accumulator& acc, Scalar x, int64_t position) {
    const bool is_float = graph::is_float(s.accumulate);
    switch (s.op) {
      case ReduceOp::kSum:
        acc.value.f += x.f;
        acc.value.i =
            wrap_integer(s, static_cast<uint64_t>(acc.value.i) + static_cast<uint64_t>(x.i));
        return;
      case ReduceOp::kProd:
        acc.value.f *= x.f;
        acc.value.i =
            wrap_integer(s, static_cast<uint64_t>(acc.value.i) * static_cast<uint64_t>(x.i));
        return;
      case ReduceOp::kAny:
        acc.value.i |= x.i;
        return;
      case ReduceOp::kAll:
        acc.value.i &= x.i;
        return;
      case ReduceOp::kWelford: {
        ++acc.count;
        double delta = x.f - acc.mean;
        acc.mean += delta / static_cast<double>(acc.count);
        acc.m2 += delta * (x.f - acc.mean);
        return;
      }
      case ReduceOp::kMax:
      case ReduceOp::kMin:
      case ReduceOp::kArgMax:
      case ReduceOp::kArgMin: {
        const bool up = s.op == ReduceOp::kMax || s.op == ReduceOp::kArgMax;
        bool wins;
        if (is_float) {
          wins = !std::isnan(acc.value.f) &&
                 (std::isnan(x.f) || (up ? x.f > acc.value.f : x.f < acc.value.f));
        } else {
          wins = up ? x.i > acc.value.i : x.i < acc.value.i;
        }
        if (position == 0 || wins) {
          acc.value = x;
          acc.position.i = position;
        }
        return;
      }
    }
  }

  static int64_t wrap_integer(const Statement& s, uint64_t value) {
    return graph::is_float(s.accumulate) ? 0 : wrap(s.accumulate, static_cast<int64_t>(value));
  }

  Scalar reduced(ExprRef e) const {
    const Accumulator& acc = results_[e->ival];
    const Statement& s = reduction(e->ival);
    switch (s.op) {
      case ReduceOp::kWelford: {
        double component = e->component == 0   ? acc.mean
                           : e->component == 1 ? acc.m2
                                               : static_cast<double>(acc.count);
        return {0, round_to(e->dtype, component)};
      }
      case ReduceOp::kArgMax:
      case ReduceOp::kArgMin:
        return e->component == 0 ? acc.position : acc.value;
      case ReduceOp::kSum:
      case ReduceOp::kProd:
      case ReduceOp::kMax:
      case ReduceOp::kMin:
      case ReduceOp::kAny:
      case ReduceOp::kAll:
        return acc.value;
    }
    BRAZE_UNREACHABLE("reduction ", to_string(s.op));
  }

  const Statement& reduction(int64_t number) const {
    for (const Statement& s : kernel_.body)
      if (s.is_reduction() && s.reduced == number) return s;
    BRAZE_UNREACHABLE("no reduction ", number);
  }

  // Each node at most once per point.
  Scalar evaluate(ExprRef e) {
    Slot& slot = slots_.at(e);
    if (slot.time == time_) return slot.value;
    slot.value = compute(e);
    slot.time = time_;
    return slot.value;
  }

  Scalar compute(ExprRef e) {
    switch (e->kind) {
      case ExprKind::kConst:
        return {e->ival, e->fval};
      case ExprKind::kAxis:
        return {point_[e->ival], 0};
      case ExprKind::kSize:
        return {sym::evaluate(e->size, symbols_), 0};
      case ExprKind::kReduced:
        return reduced(e);
      case ExprKind::kScanned:
        if (e->component == 2) return {results_[e->ival].count, 0};
        return e->component == 0 ? results_[e->ival].position : results_[e->ival].value;
      case ExprKind::kLoad:
        return load(e->dtype, params_[e->ival], evaluate(e->args[0]).i);
      case ExprKind::kCast:
        return convert(evaluate(e->args[0]), e->args[0]->dtype, e->dtype);
      case ExprKind::kBitcast: {
        double memory = 0;
        store(e->args[0]->dtype, &memory, 0, evaluate(e->args[0]));
        return load(e->dtype, &memory, 0);
      }
      case ExprKind::kMasked:
        return evaluate(e->args[evaluate(e->args[0]).i ? 1 : 2]);
      case ExprKind::kCheckIndex: {
        Scalar index = evaluate(e->args[0]);
        if (index.i < 0 || index.i >= evaluate(e->args[1]).i) throw IndexError();
        return index;
      }
      case ExprKind::kAfter:
        evaluate(e->args[0]);
        return evaluate(e->args[1]);
      default:
        break;  // the arithmetic
    }
    Scalar args[4];
    for (size_t i = 0; i < e->args.size(); ++i) args[i] = evaluate(e->args[i]);
    DType operand = e->kind == ExprKind::kWhere ? e->dtype : e->args[0]->dtype;
    return apply(e->kind, operand, std::span<const Scalar>(args, e->args.size()));
  }

  const Kernel& kernel_;
  std::span<void* const> params_;
  std::span<const int64_t> symbols_;
  std::vector<int64_t> extents_, point_;
  std::unordered_map<ExprRef, Slot> slots_;
  std::vector<Accumulator> results_;
  int64_t time_ = 0;
};

}  // namespace

bool interpret(const Kernel& kernel, std::span<void* const> params,
               std::span<const int64_t> symbols) {
  try {
    Interpreter(kernel, params, symbols).run();
    return true;
  } catch (const IndexError&) {
    return false;
  }
}

}  // namespace braze::loop
