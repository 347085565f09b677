// What the elementwise families share: operands that broadcast, numbers, the dtype computed in.
#pragma once

#include "graph/infer/promotion.h"
#include "loop/lowering/lowering.h"

namespace braze::loop::lowering {

// A tensor or a number argument.
struct Operand {
  Value* value = nullptr;
  graph::Argument number;
};
Operand operand_arg(const Node& node, int i);

// A number as a constant of `dtype`; null where the dtype cannot hold it as eager would.
ExprRef number_as(ExprPool& pool, const graph::Argument& number, DType dtype);

// x, y, ... of one dtype (compute_dtype of the dtype asked for) to the result, of any dtype.
using Formula = std::function<ExprRef(ExprPool& pool, std::span<const ExprRef> x)>;

struct Cost {
  int size = 1;
  bool heavy = false;
};

// result 0 = formula(operands cast to `dtype`), cast to the result's dtype.
bool define_pointwise(Lowering& lowering, const Node& node, std::vector<Operand> operands,
                      DType dtype, Cost cost, Formula formula);

ExprRef greater(ExprPool& pool, ExprRef a, ExprRef b);
// min(max(x, lo), hi), NaN propagating; either bound may be null.
ExprRef clamp(ExprPool& pool, ExprRef x, ExprRef lo, ExprRef hi);

}  // namespace braze::loop::lowering
