// Inlining of kernels into the kernels that load their results.
#pragma once

#include "loop/program.h"
#include "schedule/aliases.h"
#include "target/costs.h"

namespace braze::schedule {

// Computes the value of a cheap pointwise kernel anew wherever it is loaded, when that moves fewer
// bytes: casts, masks, scales of channels, views of small tensors that several kernels read at
// other points than they were stored. Kernels whose result an extern call or the user needs stay.
//
//   s = rsqrt(var + eps) over [64];  y = x * load(s, o0) over [64, 1024]
//     -> y = x * rsqrt(load(var, o0) + eps)
//
// Operands live longer for it, but the result takes no memory: `shrinking` leaves alone kernels
// whose operands are larger than their result, so that no more is live at any time. True if
// something changed; the stores that are dead now are left to remove_dead_stores.
bool inline_cheap_kernels(loop::Program& program, const Aliases& aliases,
                          const target::Costs& costs, bool shrinking = false);

}  // namespace braze::schedule
