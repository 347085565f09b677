// Outputs of compiled code as eager's code would have made them.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "graph/signature.h"

namespace braze::dispatch {

// The state of a tensor that the traced code made.
graph::OutputState state_of(const at::Tensor& traced);

// A module makes its outputs in the mode of the call. Where the code made one in another mode, the
// output is exchanged for a tensor over the same memory that is, or is not, an inference tensor or
// a view, and views get the state in which they may be written to later. `roles`: by output; there
// may be more of them, of outputs that have been taken away.
// `inputs`, null where they are none of this call's, are what a used-up history leads to.
void take_states(std::vector<at::Tensor>& outputs, std::span<const graph::OutputRole> roles,
                 std::span<c10::TensorImpl* const> inputs);

}  // namespace braze::dispatch
