// Small kernels of a GPU that give nothing but results of the program, as the last additions of
// sums that are gradients of biases, are put off to its end, past operators and larger kernels:
// those that are alike are then done by one launch (together.h).
#pragma once

#include "schedule/schedule.h"

namespace braze::schedule {

// What these kernels read is there until the end: at most one part in `share` of the bytes of all
// results. Runs after fusion and before memory is planned.
void put_off(loop::Program& program, const target::Target& target, int64_t share = 8);

}  // namespace braze::schedule
