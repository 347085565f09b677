// Sums over outer points in parts (loop::StoreOp::kPart): each thread of a block keeps those of its
// inner points in registers while the block goes from one outer point to the next, and the block
// stores its part at the end. Rows that share a block are added up in their order before.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/nest.h"

namespace braze::codegen::cuda {

// The threads that share a row of a nest with parts, and the blocks that a processor has of them.
void spread_parts(Nest& nest, const target::Cuda& cuda);

// What a thread does with its value of element `lane` of a pack, in its round `round`: one number,
// or two factors.
std::string add_to_part(const Nest& nest, const loop::Statement& statement, const std::string& lane,
                        const std::vector<std::string>& value);

// A kernel with parts: `body`, once for each turn of the loop, between what clears and what stores
// them.
std::vector<std::string> with_parts(const Nest& nest, const std::string& loop,
                                    const std::vector<std::string>& body);

}  // namespace braze::codegen::cuda
