// Pointwise kernels beside scans over other lines than rows.
//
// A pointwise kernel may take its points in any order, and before it is merged it has that of its
// own memory. So that it may be merged with a kernel that scans columns, or rows from their end, it
// is given the axes of that one, by the index of a buffer that one of the two hands to the other:
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

// `points`, a kernel without inner axes, over outer axes that are all axes of `scans`. Empty where
// the index of the buffer between them does not tell how.
std::optional<loop::Kernel> following(loop::ExprPool& pool, const loop::Kernel& scans,
                                      const loop::Kernel& points);

}  // namespace braze::schedule
