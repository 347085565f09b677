// Outputs of compiled code as eager's code would have made them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace braze::dispatch {

// What PyTorch knows of an output besides its contents and layout, as the traced code made it. A
// tensor from outside is that very tensor and has no such state.
struct OutputState {
  bool is_made = false;       // by the traced code
  bool is_inference = false;  // made in inference mode, or a view of such a tensor
  bool is_view = false;       // to autograd
  uint8_t creation = 0;       // of a view: torch::autograd::CreationMeta
};

OutputState state_of(const at::Tensor& traced);

// A plan makes its outputs in the mode of the call. Where the code made one in another mode, the
// output is exchanged for a tensor over the same memory that is, or is not, an inference tensor or
// a view, and views get the state in which they may be written to later. `states`: by output, or
// nothing.
void take_states(std::vector<at::Tensor>& outputs, std::span<const OutputState> states);

}  // namespace braze::dispatch
