// Pointwise kernels beside scans and reductions over other lines than rows.
//
// A pointwise kernel may take its points in any order, and before it is merged it has that of its
// own memory. So that it may be merged with a kernel that scans columns, or rows from their end, it
// is given the axes of that one, by the index of a buffer that one of the two hands to the other,
// or, behind reductions, of one that both read (the image of a batch norm, whose channels are the
// outer axis of the sums):
//
//   out[o0*512 + 511 - o1] = 2 * b[o0*512 + o1], where b's last axis has been scanned from its end
//     -> outer [512, 512]: out[o0*512 + o1] = 2 * b[o0*512 + 511 - o1]
#pragma once

#include <optional>

#include "loop/program.h"

namespace braze::schedule {

// Whether one of the two has scans that are done in parts, and the other has as many points and is
// pointwise: a quick test before `following`.
bool may_follow(const loop::Kernel& first, const loop::Kernel& second);

// The same of a kernel with reductions and no scans, and one behind it.
bool may_follow_sums(const loop::Kernel& sums, const loop::Kernel& points);

// `points`, a kernel without inner axes, over outer axes that are all axes of `lines`. Empty where
// the index of the buffer between them does not tell how.
std::optional<loop::Kernel> following(loop::ExprPool& pool, const loop::Kernel& lines,
                                      const loop::Kernel& points);

}  // namespace braze::schedule
