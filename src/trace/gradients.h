// Gradients that PyTorch works out by looking at the data first (is there a zero?), as expressions
// that look at none, so that a trace can have them. Where no place is special they give the same
// bits as PyTorch's. Beside them stand those whose formula makes numbers of sizes that vary: they
// differ in the order of two roundings.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <optional>

namespace braze::trace {

// What the node gives for `gradients`; nothing if its own formula reads no data, or is not known
// here. prod, cumprod; max, min, median and nanmedian of a whole tensor; sgn, whose formula makes
// zeros without memory; var and std over sizes that vary, with the mean beside them.
std::optional<torch::autograd::variable_list> gradient_without_data(
    torch::autograd::Node& node, const torch::autograd::variable_list& gradients);

}  // namespace braze::trace
