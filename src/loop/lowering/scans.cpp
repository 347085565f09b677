// Running sums, products, extrema: one scan along a dim. On a CPU a recurrence, in the order and
// the precision of eager's serial kernels, so that results are the same bit by bit; on a GPU an
// associative operation in the dtype that is computed in, of which threads have parts.
#include <algorithm>
#include <limits>

#include "graph/op_kind.h"
#include "loop/lowering/lowering.h"
#include "loop/scalar.h"

namespace braze::loop::lowering {
namespace {

using graph::OpKind;
using K = ExprKind;

// A kernel whose inner axis is the dim and whose outer axes are the others.
class ScanKernel {
 public:
  ScanKernel(Lowering& lowering, const Node& node)
      : lowering_(lowering),
        operand_(graph::tensor_arg(node, 0)),
        dim_(graph::normalize_dim(graph::int_arg(node, 1), operand_->type().rank())),
        kernel_(lowering, node.origin(), label_of(lowering, node), outer_sizes(), inner_sizes()),
        index_(kernel_.outer().begin(), kernel_.outer().end()) {
    if (operand_->type().rank() > 0)
      index_.insert(index_.begin() + static_cast<ptrdiff_t>(dim_), position());
  }

  KernelBuilder& builder() { return kernel_; }
  ExprRef position() const { return kernel_.inner()[0]; }
  ExprRef element() { return lowering_.element(operand_, index_); }

  // The running value as the elements of a result.
  void store(Value* result, ExprRef value) {
    if (!result || lowering_.uses(result) == 0) return;
    kernel_.store(result, index_, value, /*inner=*/true);
  }
  // The last one of them.
  bool finish(Value* result, ExprRef value) {
    store(result, value);
    kernel_.finish();
    return true;
  }

 private:
  // The name of the kernel. An operand that is expensive is realised here, before the kernel is
  // begun: on a CPU its own kernel computes it in vectors, while a scan goes element by element.
  static std::string label_of(Lowering& lowering, const Node& node) {
    Value* operands[] = {graph::tensor_arg(node, 0)};
    std::string label = "fused_" + lowering.traits_over(node, operands, 1).label;
    if (!lowering.on_gpu()) lowering.realise_heavy(operands[0]);
    return label;
  }
  sym::Dims outer_sizes() const {
    sym::Dims sizes = sizes_of(operand_);
    if (!sizes.empty()) sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(dim_));
    return sizes;
  }
  sym::Dims inner_sizes() const {
    const sym::Dims sizes = sizes_of(operand_);
    return {sizes.empty() ? sym::Int(1) : sizes[dim_]};
  }

  Lowering& lowering_;
  Value* operand_;
  int64_t dim_;
  KernelBuilder kernel_;
  Index index_;
};

// The dtype that eager keeps a running value in.
DType running_dtype(DType dtype) {
  return dtype == DType::kFloat32 ? DType::kFloat64 : compute_dtype(dtype);
}

// On a GPU a row is one block's: of a single long one all others would be idle, while PyTorch's
// operator shares it out.
bool is_single_row(const graph::TensorType& type) {
  constexpr int64_t kLongest = 1 << 15;
  const int64_t count = type.numel().hint();
  return count > kLongest && std::ranges::any_of(type.sizes, [&](const sym::Int& size) {
           return size.hint() == count;
         });
}

// Whether PyTorch's operator is faster. On a CPU, converting halves one by one takes longer than
// eager's kernels do.
bool is_slow(const Lowering& lowering, const Node& node) {
  const graph::TensorType& type = graph::tensor_arg(node, 0)->type();
  if (lowering.on_gpu()) return is_single_row(type);
  bool halves = type.dtype != compute_dtype(type.dtype);
  for (const Value* result : node.results())
    halves |= result && result->type().dtype != compute_dtype(result->type().dtype);
  if (!halves || type.rank() == 0) return false;
  return type.strides[graph::normalize_dim(graph::int_arg(node, 1), type.rank())] == sym::Int(1);
}

// Sum and product: the elements are first converted to the result's dtype.
template <ExprKind op>
bool lower_cumulative(Lowering& lowering, const Node& node) {
  const DType dtype = node.result()->type().dtype;
  if (dtype == DType::kBool || is_slow(lowering, node)) return false;
  const DType running = lowering.on_gpu() ? compute_dtype(dtype) : running_dtype(dtype);
  ExprPool& pool = lowering.pool();
  ScanKernel kernel(lowering, node);
  ExprRef element = pool.cast(pool.cast(kernel.element(), dtype), running);
  if (lowering.on_gpu()) {
    constexpr ScanOp associative = op == K::kMul ? ScanOp::kProd : ScanOp::kSum;
    return kernel.finish(node.result(), kernel.builder().scan(associative, element));
  }
  ExprRef initial = pool.number(running, op == K::kMul ? 1 : 0);
  ExprRef result = kernel.builder().scan(
      initial, [&](ExprRef before) { return pool.binary(op, before, element); });
  return kernel.finish(node.result(), result);
}

// Results: values and indices. Of equal values the last one counts; a NaN stays until the next NaN.
template <bool up>
bool lower_cumulative_extremum(Lowering& lowering, const Node& node) {
  const DType dtype = graph::tensor_arg(node, 0)->type().dtype, running = compute_dtype(dtype);
  if (dtype == DType::kBool || is_slow(lowering, node)) return false;
  ExprPool& pool = lowering.pool();
  ScanKernel kernel(lowering, node);
  ExprRef element = pool.cast(kernel.element(), running);
  if (lowering.on_gpu()) {
    ExprRef value = kernel.builder().scan(up ? ScanOp::kMax : ScanOp::kMin, element);
    kernel.store(node.result(0), value);
    return kernel.finish(node.result(1), pool.scanned_place(static_cast<int>(value->ival)));
  }
  ExprRef initial;
  if (graph::is_float(running)) {
    const double infinity = std::numeric_limits<double>::infinity();
    initial = pool.constant(running, up ? -infinity : infinity);
  } else {
    initial = pool.integer(up ? range_of(running).lo : range_of(running).hi, running);
  }
  ExprRef wins = nullptr;
  ExprRef value = kernel.builder().scan(initial, [&](ExprRef before) {
    wins = up ? pool.binary(K::kLe, before, element) : pool.binary(K::kLe, element, before);
    if (graph::is_float(running)) wins = pool.binary(K::kOr, wins, pool.unary(K::kIsNan, element));
    return pool.where(wins, element, before);
  });
  kernel.store(node.result(0), value);
  if (Value* indices = node.result(1); indices && lowering.uses(indices) > 0)
    kernel.store(indices, kernel.builder().scan(pool.integer(0), [&](ExprRef before) {
      return pool.where(wins, kernel.position(), before);
    }));
  kernel.builder().finish();
  return true;
}

// log(exp(before) + exp(element)) without overflow; what is infinite stays so.
bool lower_logcumsumexp(Lowering& lowering, const Node& node) {
  const DType dtype = node.result()->type().dtype;
  if (!graph::is_float(dtype) || graph::tensor_arg(node, 0)->type().dtype != dtype) return false;
  if (lowering.on_gpu() && is_slow(lowering, node)) return false;
  const DType running = lowering.on_gpu() ? compute_dtype(dtype) : running_dtype(dtype);
  ExprPool& pool = lowering.pool();
  ScanKernel kernel(lowering, node);
  ExprRef element = pool.cast(kernel.element(), running);
  if (lowering.on_gpu())
    return kernel.finish(node.result(), kernel.builder().scan(ScanOp::kLogSumExp, element));
  ExprRef initial = pool.constant(running, -std::numeric_limits<double>::infinity());
  ExprRef result = kernel.builder().scan(initial, [&](ExprRef before) {
    ExprRef low = pool.binary(K::kMin, element, before);
    ExprRef high = pool.binary(K::kMax, element, before);
    ExprRef part = pool.unary(K::kExp, pool.binary(K::kSub, low, high));
    ExprRef sum = pool.add(pool.unary(K::kLog1p, part), high);
    ExprRef infinite =
        pool.binary(K::kAnd, pool.binary(K::kEq, low, high), pool.unary(K::kIsInf, low));
    return pool.where(infinite, element, sum);
  });
  return kernel.finish(node.result(), result);
}

}  // namespace

Handler scan_handler(OpKind kind) {
  switch (kind) {
    case OpKind::kcumsum:
      return lower_cumulative<K::kAdd>;
    case OpKind::kcumprod:
      return lower_cumulative<K::kMul>;
    case OpKind::kcummax:
      return lower_cumulative_extremum<true>;
    case OpKind::kcummin:
      return lower_cumulative_extremum<false>;
    case OpKind::klogcumsumexp:
      return lower_logcumsumexp;
    default:
      return nullptr;  // other families, or an extern call
  }
}

}  // namespace braze::loop::lowering
