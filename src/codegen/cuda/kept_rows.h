// What the threads that share a row keep of it from one walk to the next: in their registers, or in
// the shared memory of their blocks.
#pragma once

#include "codegen/cuda/nest.h"

namespace braze::codegen::cuda {

constexpr int64_t kMostSharers = 1024;

// Rounds whose packs stay in registers, if those are few enough; with more threads for longer rows.
void choose_rounds(Nest& nest, const target::Cuda& cuda);

// Long rows whose parts stay in the registers of several blocks, or which are so few that blocks of
// a whole row each would leave some processors idle at the end.
void choose_cluster(Nest& nest, const target::Cuda& cuda);

// Rows of more than registers keep, which several walks load: into the shared memory of as few
// blocks as leave room for two on a processor. False: they are not, and nothing has changed.
bool stage_rows(Nest& nest, const target::Cuda& cuda);

}  // namespace braze::codegen::cuda
