// Stores that accumulate: atomic operations, as any thread may meet any other in an element.
//
// Sums into few elements are made by each block in its shared memory, and added to those of the
// others at its end, so that what all threads add to does not hold them up. Threads of a warp that
// meet add up first.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/nest.h"
#include "target/target.h"

namespace braze::codegen::cuda {

// Of a nest whose shape is known: the elements that blocks have copies of, and how many blocks
// there are at most then.
void plan_own_parts(Nest& nest, const target::Cuda& cuda);

// Of so many lanes as many as pay: where a thread that has several neighbours adds to each alone,
// a warp touches more memory at a time than it has to.
int lanes_of_sums(const Nest& nest, int axis, int lanes);

// Whether the sums of a pack are one operation, which lies where `index` does.
bool adds_packs(const Nest& nest, const loop::Statement& statement);

// Whether the sums of the lanes of a thread are made together. Counts of a block are not: the
// hardware adds up those of a warp that are in one place.
bool adds_lanes(const Nest& nest, const loop::Statement& statement);

// The statement that a thread does at one point.
std::string accumulation(const Nest& nest, const loop::Statement& statement,
                         const std::string& index, const std::string& value);
// Of sums of several lanes: the arrays `out` of what they add and, unless they are packs, `places`;
// what is done with them, at `base` if they are packs, of all lanes or of the first `count`.
std::vector<std::string> arrays_of_sums(const Nest& nest, const loop::Statement& statement,
                                        const std::string& out, const std::string& places);
std::string sums_of_lanes(const Nest& nest, const loop::Statement& statement,
                          const std::string& out, const std::string& places,
                          const std::string& base, const std::string& count);

// A kernel whose blocks have copies: `body`, once for each point of the loop, between what clears
// and what adds them.
std::vector<std::string> with_own_parts(const Nest& nest, const std::string& loop,
                                        const std::vector<std::string>& body);

}  // namespace braze::codegen::cuda
