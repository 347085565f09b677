// Composite operators that are not left to PyTorch's own kernels where sizes are symbols: those
// would make numbers of them. Attention loses a mask that hides nothing. `matmul` is decomposed
// here; recurrent layers are recorded as they are. So are quantiles, whose kernel looks into memory
// in some versions of PyTorch, and the CTC loss, whose kernel keeps what has a size that depends on
// data (ctc_loss.h). A few that only ask for sizes as numbers are written with symbols
// (symbolic_composites.cpp). Draws into a tensor that is not contiguous become draws into one
// that is.
#pragma once

#include <c10/core/DispatchKey.h>
#include <torch/library.h>

#include <string>

namespace braze::trace {

// Included in the thread's keys while a trace is under way.
inline constexpr c10::DispatchKey kCompositeKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

// Once per process; empty, or why it failed.
std::string register_composites();

// attention.cpp
void register_attention(torch::Library& operators);
// recurrent.cpp
void register_recurrent(torch::Library& operators);
// quantiles.cpp
void register_quantiles(torch::Library& operators);
// symbolic_composites.cpp
void register_symbolic_composites(torch::Library& operators);
// draws.cpp
void register_draws(torch::Library& operators);
// ctc_loss.cpp
void register_ctc_loss(torch::Library& operators);

}  // namespace braze::trace
