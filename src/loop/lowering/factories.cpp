// Constants, ranges and copies.
#include <cmath>

#include "graph/op_kind.h"
#include "loop/lowering/pointwise.h"

namespace braze::loop::lowering {
namespace {

using graph::OpKind;
using K = ExprKind;

bool define_constant(Lowering& lowering, const Node& node, ExprRef value) {
  lowering.define(node, 0, {.size = 1}, [value](IndexView) { return value; });
  return true;
}

// Defines a result that is filled with a number, converted as a fill converts it.
bool define_fill(Lowering& lowering, const Node& node, const graph::Argument& number) {
  const DType dtype = node.result()->type().dtype;
  ExprPool& pool = lowering.pool();
  if (!graph::is_scalar(number) || graph::scalar_kind(number) == graph::DTypeKind::kComplex)
    return false;
  if (auto* symbol = std::get_if<sym::Int>(&number); symbol && !symbol->is_constant()) {
    ExprRef value = number_as(pool, number, dtype);
    return value && define_constant(lowering, node, value);
  }
  if (graph::is_float(dtype)) {
    ExprRef value = pool.constant(compute_dtype(dtype), graph::scalar_to_double(number));
    return define_constant(lowering, node, pool.cast(value, dtype));
  }
  if (dtype == DType::kBool)
    return define_constant(lowering, node,
                           pool.integer(graph::scalar_to_double(number) != 0, dtype));
  if (graph::scalar_kind(number) == graph::DTypeKind::kFloat) {
    const double value = graph::scalar_to_double(number);
    if (value != std::trunc(value) || std::abs(value) > 1e15) return false;
    return define_fill(lowering, node, graph::Argument(sym::Int(static_cast<int64_t>(value))));
  }
  ExprRef value = number_as(pool, number, dtype);
  return value && define_constant(lowering, node, value);
}

bool lower_full(Lowering& lowering, const Node& node) {
  return define_fill(lowering, node, node.args().at(1));
}

// start + i*step, where that is exact in the result's dtype.
bool define_arange(Lowering& lowering, const Node& node, const graph::Argument& from, double step) {
  const DType dtype = node.result()->type().dtype;
  const sym::Int count = sizes_of(node.result()).at(0);
  sym::Int start;
  if (auto* integer = std::get_if<sym::Int>(&from)) {
    start = *integer;
  } else {
    const double number = graph::scalar_to_double(from);
    if (number != std::trunc(number) || std::abs(number) > 1e15) return false;
    start = static_cast<int64_t>(number);
  }
  if (step != std::trunc(step)) return false;
  if (start.is_constant() && count.is_constant()) {
    const double last = std::abs(static_cast<double>(start.constant())) +
                        std::abs(step) * static_cast<double>(count.constant());
    const bool exact = graph::is_float(dtype) ? dtype == compute_dtype(dtype) && last < (1 << 24)
                                              : dtype == DType::kInt64 && last < 1e15;
    if (!exact && !(dtype == DType::kInt32 && last < 2e9)) return false;
  } else if (dtype != DType::kInt64 || std::abs(step) > 1e3) {
    return false;
  }
  const auto stride = static_cast<int64_t>(step);
  lowering.define(node, 0, {.size = 3}, [&lowering, start, stride, dtype](IndexView index) {
    ExprPool& pool = lowering.pool();
    return pool.cast(pool.add(pool.mul(index[0], stride), pool.index(start)), dtype);
  });
  return true;
}

bool lower_arange(Lowering& lowering, const Node& node) {
  return define_arange(lowering, node, sym::Int(0), 1);
}
bool lower_arange_start(Lowering& lowering, const Node& node) {
  return define_arange(lowering, node, node.args().at(0), 1);
}
bool lower_arange_step(Lowering& lowering, const Node& node) {
  return define_arange(lowering, node, node.args().at(0), graph::double_arg_or(node, 2, 1));
}

bool lower_eye(Lowering& lowering, const Node& node) {
  const DType dtype = node.result()->type().dtype;
  lowering.define(node, 0, {.size = 3}, [&lowering, dtype](IndexView index) {
    ExprPool& pool = lowering.pool();
    ExprRef one = pool.binary(K::kEq, index[0], index[1]);
    return pool.cast(pool.cast(one, compute_dtype(dtype)), dtype);
  });
  return true;
}

// The operand's elements, cast to the result.
bool lower_copy(Lowering& lowering, const Node& node) {
  Value* value = graph::tensor_arg(node, 0);
  Value* operands[] = {value};
  const DType dtype = node.result()->type().dtype;
  lowering.define(node, 0, lowering.traits_over(node, operands, 0),
                  [&lowering, value, dtype](IndexView index) {
                    return lowering.pool().cast(lowering.element(value, index), dtype);
                  });
  return true;
}

}  // namespace

Handler factory_handler(OpKind kind) {
  switch (kind) {
    case OpKind::kfull:
      return lower_full;
    case OpKind::karange:
      return lower_arange;
    case OpKind::karange_start:
      return lower_arange_start;
    case OpKind::karange_start_step:
      return lower_arange_step;
    case OpKind::keye:
      return lower_eye;
    case OpKind::kclone:
    case OpKind::kcopy_strided:
    case OpKind::k_to_copy:
      return lower_copy;
    default:
      return nullptr;  // other families, or an extern call
  }
}

}  // namespace braze::loop::lowering
