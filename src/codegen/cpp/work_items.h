// Which work items a kernel is made of, and how many of them are worth a thread.
#pragma once

#include "codegen/cpp/nest.h"
#include "codegen/cpp/survey.h"

namespace braze::codegen::cpp {

// Once the vector axis and the tile axis are chosen: the axes that threads share out and those that
// each walks, rows or columns side by side, the elements in a block, the extent and its grain.
void plan_work_items(Nest& nest, const Survey& facts, Isa isa);

// Once the nest is known to go row by row: threads that add to parts of the same rows would take
// the memory around them from each other, so they share out the places that rows are added to.
void share_out_places(Nest& nest, const Survey& facts);

}  // namespace braze::codegen::cpp
