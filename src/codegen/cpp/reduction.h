// The accumulators of one reduction: declared before the loop, updated in it, folded after it.
#pragma once

#include <string>
#include <vector>

#include "codegen/cpp/expression.h"

namespace braze::codegen::cpp {

class Reduction {
 public:
  // `column` is added to the names where several vectors of outer points are reduced side by side;
  // negative: there is one.
  Reduction(const Nest& nest, Task task, int column, ExpressionWriter& writer);

  // Argmax and argmin keep one accumulator: a second would have to carry its positions.
  static bool can_unroll(const Task& task);

  void declare(int copies);
  void accumulate(int copy);
  // A second level of accumulators for a part of a long loop, so that rounding errors of a sum grow
  // with the root of its length only. `end_part` adds them up.
  bool has_parts() const;
  // The alternative for one loop of unknown length: from time to time the accumulators are moved to
  // a total; with loops around the innermost one, that one to a second. To be called before
  // `declare`.
  void keep_totals(int totals) { totals_ = totals; }
  void move_to_total(int level);
  void set_part(bool in_part) { in_part_ = in_part; }
  void begin_part();
  void end_part();
  // Folds copies and lanes and binds the result for later statements.
  void finish();
  // Sums of squares whose mean may be corrected, finished: writes where it is, and gives the
  // condition that it is anywhere; writes what is instead there.
  bool may_be_corrected() const;
  std::string write_whether_corrected();
  void write_corrected();

 private:
  sym::Int points() const;
  std::string count();
  std::string sum_of_copies();
  std::string total(int level) const { return stem_ + (level == 0 ? "_total" : "_whole"); }
  bool is_arg() const;
  bool folds_lanes() const { return nest_.vector_is_inner(); }
  bool lanes() const { return nest_.vector_axis >= 0; }
  std::string name(int copy) const;
  std::string identity();
  std::string combine(const std::string& a, const std::string& b);
  std::string position();
  std::string same_element(const std::string& a, const std::string& b) const;
  void accumulate_arg(const Operand& value);
  void finish_arg();

  const Nest& nest_;
  Task task_;
  const loop::Statement& statement_;
  ExpressionWriter& writer_;
  graph::DType dtype_;      // of the accumulator
  std::string index_type_;  // element of the positions of argmax and argmin
  int copies_ = 1;
  bool in_part_ = false;
  int totals_ = 0;
  std::string base_;  // "r0"
  std::string stem_;
};

}  // namespace braze::codegen::cpp
