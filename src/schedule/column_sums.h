// Sums over the rows of matrices, made by a kernel that walks the rows for something else.
//
// Needs fused kernels. Where a kernel reduces the columns of what another one goes through row by
// row, as the gradients of a norm's weight beside that of its input, the latter adds each row to
// one of a number of parts on its way (loop::StoreOp::kPart), and a small kernel sums the parts and
// does what came behind the sums. What both read is read once.
//
//   outer(512) inner(128) { r0 = sum(load(b0, o0*128 + i0)); store(b1, o0*128 + i0, ...r0) }
//   outer(128) inner(512) { r0 = sum(load(b0, i0*128 + o0)); store(b2, o0, r0) }
//   =>
//   outer(512) inner(128) { store_part(p, i0, load(b0, o0*128 + i0)) parts 264; r0 = ...; store ...
//   } outer(128) inner(264) { r0 = sum(load(p, i0*128 + o0)); store(b2, o0, r0) }
//
// How many parts there are follows from the sizes and the target alone, so that results are the
// same each time. Sizes are numbers.
#pragma once

#include "loop/program.h"
#include "schedule/aliases.h"
#include "schedule/input_writes.h"
#include "target/costs.h"

namespace braze::schedule {

void sum_columns_beside_rows(loop::Program& program, const Aliases& aliases,
                             const InputWrites& writes, const target::PartCosts& costs);

// By buffer: whether it holds parts of a sum.
std::vector<bool> holding_parts(const loop::Program& program);

}  // namespace braze::schedule
