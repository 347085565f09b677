// Dtypes of what kernels hand to each other in memory.
#pragma once

#include "schedule/aliases.h"

namespace braze::schedule {

// A buffer that each of its loads rounds to the same narrower float dtype, f32 whose readers begin
// with bf16(load(b)), is stored as that: the same bits are read, half the bytes moved. Outputs,
// what extern calls are given, views and what accumulates stay as they are.
void narrow_stores(loop::Program& program, const Aliases& aliases);

}  // namespace braze::schedule
