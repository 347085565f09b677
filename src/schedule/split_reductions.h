// Long reductions of few rows, cut into parts that threads can share.
//
// Needs fused kernels. A kernel whose outer axes have few points and whose reductions run over many
// becomes two or three: one reduces equal parts of the longest inner axis, a second one what is
// left of the axis, and the last one reduces the results of the parts and does all else; what the
// walk stores of each point, the parts store:
//
//   outer() inner(i0 < 1000000) { r0 = sum(load(b0, i0)) inner; store(b1, 0, r0) }
//   =>
//   outer(o0 < 30) inner(i0 < 33280) { r0 = sum(load(b0, o0*33280 + i0)) inner; store(p, o0, r0) }
//   outer() inner(i0 < 1600) { r0 = sum(load(b0, 998400 + i0)) inner; store(p, 30, r0) }
//   outer() inner(i0 < 31) { r0 = sum(load(p, i0)) inner; store(b1, 0, r0) }
//
// Means and variances are joined from those of the parts. The parts follow from the sizes alone, so
// that results do not depend on the number of threads.
#pragma once

#include "loop/program.h"
#include "target/costs.h"

namespace braze::schedule {

void split_reductions(loop::Program& program, const target::SplitCosts& costs);
// Whether split_reductions splits the kernel as it is.
bool will_be_split(const loop::Kernel& kernel, const target::SplitCosts& costs);

}  // namespace braze::schedule
