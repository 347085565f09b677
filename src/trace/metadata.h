// Metadata of a traced call's results by the rules of graph/infer/, and fakes of it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <deque>
#include <optional>
#include <vector>

#include "graph/infer/call.h"
#include "sym/shape_env.h"
#include "trace/operator.h"

namespace braze::trace {

// Answers by what is known of the symbols, else by the sizes seen, with a guard. Without symbols
// there is no question that gets here, so that there may be no environment for them either.
class GuardedSizes final : public graph::SizeQuestions {
 public:
  explicit GuardedSizes(sym::ShapeEnv& shapes) : shapes_(&shapes) {}
  // Of the trace of this thread.
  GuardedSizes();

 protected:
  bool are_equal(sym::Int a, sym::Int b) override { return shapes_->guard_eq(a, b); }
  bool is_less(sym::Int a, sym::Int b) override { return shapes_->guard_lt(a, b); }
  bool must_be_equal(sym::Int a, sym::Int b) override { return shapes_->guard_eq(a, b); }
  bool must_be_at_most(sym::Int a, sym::Int b) override { return !shapes_->guard_lt(b, a); }
  bool asserts_equal(sym::Int a, sym::Int b) override;
  bool asserts_at_least(sym::Int a, int64_t least) override;
  bool is_surely_equal(sym::Int a, sym::Int b) override;
  bool is_less_for_most_sizes(sym::Int a, sym::Int b) override;
  int64_t fixed(sym::Int a) override { return shapes_->guard_int(a); }
  bool comes_from_data(sym::Int a) override { return shapes_->mentions_unbacked(a); }
  sym::Int span_of(sym::Int size) override;

 private:
  sym::ShapeEnv* shapes_;
};

graph::DType default_dtype();

// The results in place of the arguments, from `begin` on: argument 0 itself if the operator writes
// to it, views of it if it is an operator that gives views, else fresh fakes.
void put_results(const OperatorInfo& info, torch::jit::Stack& stack, size_t begin,
                 std::span<const graph::Inferred> results);

// The arguments of such a call: tensors are values that belong to no graph, in `values`. Nothing
// for arguments that no graph holds.
std::optional<std::vector<graph::Argument>> arguments_of_nested(const OperatorInfo& info,
                                                                const torch::jit::Stack& stack,
                                                                size_t begin,
                                                                std::deque<graph::Value>& values);
// For a call that a kernel for metadata makes; false, with the stack untouched, where no rule
// serves it.
bool infer_nested(const OperatorInfo& info, torch::jit::Stack& stack);

}  // namespace braze::trace
