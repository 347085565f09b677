// Kernels that write to memory that they read.
#pragma once

#include <cstdint>
#include <vector>

#include "loop/program.h"
#include "target/target.h"

namespace braze::schedule {

// Every byte of the extent belongs to one element.
bool is_dense(const graph::TensorType& type);

// The index at which the kernel touches parameter `param`, if it is always the same one and no load
// comes after statement `*store`; null otherwise. For the parameter that is stored, `*store`
// becomes the first statement that does.
loop::ExprRef only_index(const loop::Kernel& kernel, int param, bool stored, size_t* store);

// A code generator may walk a kernel's statements in several sweeps, where one overwrites what a
// later one reads, and it may compute the elements at the end of an axis twice when the axis is no
// multiple of `multiple`; both go wrong in place. One sweep over whole multiples does not.
bool may_run_in_place(const loop::Kernel& kernel, int64_t multiple);

// The same of a store to `stored` beside reductions, where a thread takes the same inner points in
// each walk over them (target::Costs), and each inner point stores to an element of its own: that
// is to be known. Scans share out points otherwise. Threads that are too many do others' points
// once more, with what is there then, and store nothing: so no place may depend on what is in
// memory.
bool may_run_in_place_beside_reductions(const loop::Kernel& kernel, int stored);

// Kernels store what an input is to become into the input itself, in place of a copy at the end,
// where all else that reads the input has run by then, and all that may refuse its data, and each
// point reads of it only what it overwrites. Several kernels may, each a part of it. `alone`, by
// input: whether it shares memory with no other.
void write_inputs_in_place(loop::Program& program, const target::Target& target,
                           const std::vector<bool>& alone);

}  // namespace braze::schedule
