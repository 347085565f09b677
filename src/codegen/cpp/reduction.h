// The accumulators of one reduction: declared before the loop, updated in it, folded after it.
#pragma once

#include <string>
#include <vector>

#include "codegen/cpp/expression.h"

namespace braze::codegen::cpp {

class Reduction {
 public:
  Reduction(const Nest& nest, Step step, ExpressionWriter& writer);

  // Argmax and argmin keep one accumulator: a second would have to carry its positions.
  static bool can_unroll(const Step& step);

  void declare(int copies);
  void accumulate(int copy);
  // Folds copies and lanes and binds the result for later statements.
  void finish();

 private:
  bool is_arg() const;
  bool folds_lanes() const { return nest_.vector_is_inner(); }
  bool lanes() const { return nest_.vector_axis >= 0; }
  std::string name(int copy) const;
  std::string identity();
  std::string combine(const std::string& a, const std::string& b);
  std::string position();
  void accumulate_arg(const Operand& value);
  void finish_arg();

  const Nest& nest_;
  Step step_;
  const loop::Statement& statement_;
  ExpressionWriter& writer_;
  graph::DType dtype_;      // of the accumulator
  std::string index_type_;  // element of the positions of argmax and argmin
  int copies_ = 1;
  std::string stem_;
};

}  // namespace braze::codegen::cpp
