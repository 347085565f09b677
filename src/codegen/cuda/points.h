// Writes which points a thread of a kernel has.
#pragma once

#include <string>

#include "codegen/cuda/codegen.h"
#include "codegen/cuda/expression.h"
#include "codegen/cuda/nest.h"

namespace braze::codegen::cuda {

class PointWriter {
 public:
  // `block`: the name of the block's number.
  PointWriter(const Nest& nest, KernelCode& code, ExpressionWriter& writer, std::string block)
      : nest_(nest), code_(code), writer_(writer), block_(std::move(block)) {}

  // Says what the launch is, and binds the outer axes; of rows and columns also the thread's number
  // among those that share them, `lane`.
  void begin();
  // Binds the inner axes at `step`.
  void bind_inner(bool wide);

  // What must hold for the thread to store; empty: nothing.
  const std::string& guard() const { return guard_; }
  // The head of a loop around what binds the axes and what comes behind it; empty: none.
  const std::string& loop() const { return loop_; }

  // Numbers of threads, packs or points: in 32 bits where they sufficed when traced.
  bool is_wide(sym::Int count) const;
  std::string number(sym::Int value, bool wide);
  // Of the walk over the inner points.
  std::string end_of_steps(bool wide);

 private:
  sym::Int steps_along(int axis) const;
  std::string axis_count(int axis, bool wide) { return number(steps_along(axis), wide); }
  void bind(int axis, const std::string& text);
  void bind_axes(int begin, int end, std::string point, bool wide);
  void begin_points();
  void begin_tiles();
  void begin_shared(int per_block, const std::string& within);
  void begin_rows();
  void begin_clusters();
  void begin_columns();
  void bind_shift();

  const Nest& nest_;
  KernelCode& code_;
  ExpressionWriter& writer_;
  std::string block_;
  std::string guard_, loop_;
};

}  // namespace braze::codegen::cuda
