// Buffers that get the same elements.
#pragma once

#include "schedule/aliases.h"

namespace braze::schedule {

// Where a kernel stores one value at one index to two buffers of the same type, the readers of one
// read the other instead, which is not stored then: the gradient that a backward hands out and
// adds up, for one. What is read by extern calls, viewed, stored to twice or needed at the end
// stays.
void store_once(loop::Program& program, const Aliases& aliases);

}  // namespace braze::schedule
