// Sweeps of a kernel over its inner points, and what is worth keeping between them.
//
// A statement that uses a reduction comes a sweep after it. An expression that two sweeps need is
// computed twice, which is right for cheap ones (the operands are in the cache) and wrong for an
// exp.
#pragma once

#include <unordered_map>

#include "loop/program.h"

namespace braze::schedule {

// The sweep in which an expression can be computed first: 0, or one after the reductions it uses.
class Sweeps {
 public:
  int of(loop::ExprRef expr);
  // Call for each reduction and scan in order, before asking about expressions that use it. What a
  // scan keeps is known in its own sweep.
  void add(const loop::Statement& statement);

 private:
  std::unordered_map<int64_t, int> of_result_;
  std::unordered_map<loop::ExprRef, int> memo_;
};

// Whether an element costs more to compute again than to store and load: it has an exp or the like,
// or is of a scan, which would have to be done again.
bool is_expensive(loop::ExprRef expr);

// Keeps an expensive expression that a reduction and the kernel's last store both need, in the
// memory of that store:
//
//   r1 = sum(exp(x - r0));  store(b, i, exp(x - r0) / r1)
//     -> r1 = sum(exp(x - r0));  store(b, i, exp(x - r0));  store(b, i, load(b, i) / r1)
void keep_between_sweeps(loop::Kernel& kernel, loop::ExprPool& pool);

}  // namespace braze::schedule
