// What the reductions of a kernel accumulate in.
#pragma once

#include <string>

#include "codegen/cuda/nest.h"

namespace braze::codegen::cuda {

bool finds_place(const loop::Statement& reduction);
// Products are rounded with the sum that they go into, whose order is free anyway.
bool adds_product(const loop::Statement& statement);
// exp(x - maximum), with a maximum that the kernel finds. Where the distance is large, and the
// error of exp_near with it, the exponential is small beside that of the maximum.
bool is_of_distance_from_maximum(const Nest& nest, loop::ExprRef expr);
// Of halves from the maximum of the same ones.
bool sums_exponentials_of_halves(const Nest& nest, const loop::Statement& statement);
// Whether the accumulator is given several elements at a time: a pack, or those of some steps.
bool takes_packs(const Nest& nest, const loop::Statement& statement);

// The type in the prelude. `narrow`: places of it fit 32 bits.
std::string type_of_accumulator(const Nest& nest, const loop::Statement& reduction, bool narrow);

}  // namespace braze::codegen::cuda
