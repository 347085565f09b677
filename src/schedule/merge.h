// Merging of two kernels into one.
#pragma once

#include <optional>

#include "loop/program.h"
#include "schedule/aliases.h"

namespace braze::schedule {

// Bounds on a fused kernel, which keep the time to compile it and its use of registers in check.
struct MergeLimits {
  int params = 24;
  int nodes = 400;
};

// Whether all buffers of both are on one device, but for those that are given by value.
bool on_one_device(const loop::Program& program, const loop::Kernel& first,
                   const loop::Kernel& second);

// Whether `first` followed by `second` can walk the same loop nest, judged by the extents alone: a
// quick test before merge_kernels.
bool domains_match(const loop::Kernel& first, const loop::Kernel& second);

// One kernel that does what `first` and then `second` do, point by point: their axes are brought to
// common ones (an axis may be split, a kernel without inner axes may run at either level of the
// other), and loads of what `first` stored at the same point become the stored expression. Empty
// when the domains differ, when some load of a buffer that `first` stored is of another point, or
// beyond the limits.
//
//   x = a + b over [4, 128, 768];  y = x - sum(x) over [512] x [768]
//     -> outer [512] inner [768]: store x; r0 = sum(a + b); store y = (a + b) - r0
std::optional<loop::Kernel> merge_kernels(loop::ExprPool& pool, const loop::Kernel& first,
                                          const loop::Kernel& second, const Aliases& aliases,
                                          const MergeLimits& limits);

}  // namespace braze::schedule
