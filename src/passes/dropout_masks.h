// Dropout on a GPU with eager's masks, computed in the kernels that use them.
//
// PyTorch's generator of a GPU is Philox (base/philox.h): a mask is a function of the generator's
// seed, of how far it has been advanced, and of the way in which PyTorch's kernel spreads elements
// over threads. So a draw needs no tensor of its own: `braze.philox_state(increment, device)` gives
// seed and offset, and advances the generator as eager does, and
// `braze.philox_mask(state, first, size, threshold, threads, pack)` is a function of them.
//
//   before                                          after
//   %1, %2 = aten.native_dropout(%0, 0.1, true)     %1: i64[2] = braze.philox_state(4, cuda:0)
//                                                   %2: bool[8, 512] = braze.philox_mask(%1, 0,
//                                                       [8, 512], 3865470566, 4096, 8)
//                                                   %3: f32[8, 512] = aten._to_copy(%0, f32)
//                                                   %4: f32[8, 512] = aten.mul.Tensor(%3, %2)
//                                                   %5: f32[8, 512] =
//                                                   aten.mul.Scalar(%4, 1.1111112)
//                                                   ...
//
// Needs and keeps a functional graph. It stands where counter_random.h does: of a graph with a
// backward in front of the partition, so that the state crosses and not masks. Draws with nothing
// between them that draws otherwise share one state.
//
// It writes native_dropout of contiguous tensors of numbers for sizes that PyTorch's kernel goes
// through in packs of four and more elements; others draw as in eager. PyTorch takes packs by the
// address: where a tensor comes from outside, `braze.refuse_unaligned` has the call run in eager if
// it does not begin at a multiple of 16 bytes.
#pragma once

#include "graph/graph.h"

namespace braze::passes {

// How PyTorch draws on a device.
struct DropoutMapping {
  graph::Device device;
  int64_t most_threads = 0;  // that a kernel is launched with
  int half_pack = 0;         // elements that a thread takes at a time, of 16 bits
  int single_pack = 0;       // of 32 bits
  friend bool operator==(const DropoutMapping&, const DropoutMapping&) = default;
};

// Whether the graph changed.
bool use_dropout_masks(graph::Graph& graph, const DropoutMapping& mapping);

}  // namespace braze::passes
