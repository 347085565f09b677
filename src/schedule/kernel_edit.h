// Rewriting of single kernels: axes, parameters, reductions.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "loop/program.h"

namespace braze::schedule {

// Rebuilds expressions with axes, parameters and reductions replaced. Expressions are rebuilt once:
// a rewriter is for one kernel and one set of replacements.
class Rewriter {
 public:
  explicit Rewriter(loop::ExprPool& pool) : pool_(pool) {}

  std::vector<loop::ExprRef> axes;  // by axis number; empty: as they are
  std::vector<int> params;          // by parameter: the new number; empty: as they are
  sym::Dims offsets;                // by parameter: elements added to the index; empty: none
  std::vector<int> reduced;         // by reduction or scan: the new number; empty: as they are
  // Asked for each load after its index and parameter were replaced: what stands for it, or null.
  std::function<loop::ExprRef(int param, graph::DType dtype, loop::ExprRef index)> forward;

  loop::ExprRef operator()(loop::ExprRef expr);
  // Index, value and buffer of a store; value of a reduction or scan, whose own number is not
  // touched.
  loop::Statement operator()(const loop::Statement& statement);
  // To be called where the replacements change, as `forward` may from statement to statement.
  void forget() { memo_.clear(); }

 private:
  loop::ExprRef rebuild(loop::ExprRef expr);
  // A replaced operand may decide a condition, and what goes with it may contain index checks.
  // Makes the rebuilt value make those of `before` all the same.
  void keep_checks(loop::ExprRef before, loop::Statement& after);
  int param(int64_t number) const {
    return static_cast<int>(params.empty() ? number : params[number]);
  }
  loop::ExprRef moved(int64_t param, loop::ExprRef index) const {
    return offsets.empty() ? index : pool_.add(index, pool_.index(offsets[param]));
  }

  loop::ExprPool& pool_;
  std::unordered_map<loop::ExprRef, loop::ExprRef> memo_;
};

sym::Dims extents(const std::vector<loop::Axis>& axes);
// Their product for the sizes seen when traced: for estimates.
int64_t points(const std::vector<loop::Axis>& axes);

// Whether no size is a symbol.
bool has_fixed_sizes(const loop::Kernel& kernel);

// Expressions of the kernel, each once.
int node_count(const loop::Kernel& kernel);
// Calls `visit` for every expression of the kernel once, operands after the expression.
void for_each_expr(const loop::Kernel& kernel, const std::function<void(loop::ExprRef)>& visit);

// Orders the axes of each level by the strides of what is stored, largest first (inner axes keep
// their order where it decides: that of an argmax breaks ties, scans and accumulating stores follow
// it), and merges neighbours wherever every index of the kernel allows it. Axes of extent 1 go. A
// kernel with reductions or scans keeps at least one inner axis.
void normalise_axes(loop::Kernel& kernel, loop::ExprPool& pool);

// Makes the last two axes of a kernel of points one, where rows are no whole number of accesses of
// `bytes` long and so begin between them: what lies in one piece is read and written in packs
// then, whatever the rows. Of what else is read, a number for each row or for each column, the
// places are quotients and remainders.
void flatten_rows(loop::Kernel& kernel, loop::ExprPool& pool, int64_t bytes);

// Parameters that are views of computed buffers become the base with an offset, parameters of one
// buffer become one, so that equal elements have equal loads.
void resolve_views(loop::Kernel& kernel, const loop::Program& program, loop::ExprPool& pool);

// Drops parameters that nothing uses, and numbers parameters and reductions by first use, so that
// kernels that do the same are the same.
void renumber(loop::Kernel& kernel, loop::ExprPool& pool);

}  // namespace braze::schedule
