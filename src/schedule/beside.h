// Kernels of a GPU that read the same memory and share a launch, so that it comes from memory once.
//
// The backward of a layer norm walks the rows of two matrices in one kernel, and sums their columns
// in another one (directions.h), in parts of neighbouring rows (split_reductions.h). In one launch
// the blocks of both take turns: behind those of the rows of a part come those that sum its
// columns, and find what they read in a cache.
#pragma once

#include <functional>
#include <vector>

#include "schedule/schedule.h"

namespace braze::schedule {

// A kernel of rows and one of columns in parts, of more memory than a cache holds, in the same
// order. Neither stores to what the other one reads or stores, and the later one may come earlier.
// Takes the program's memory and launches (together.h) into account; `fits(rows, columns)`: whether
// there is code for both in one launch. By item: the item that shares a launch with it; -1: none.
std::vector<int> sharing_launches(
    const loop::Program& program, const MemoryPlan& memory, const std::vector<int>& first,
    const target::Target& target,
    const std::function<bool(const loop::Kernel&, const loop::Kernel&)>& fits);

}  // namespace braze::schedule
