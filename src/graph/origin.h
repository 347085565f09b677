// Where a node of a graph comes from, for messages, generated code and what is to be made again.
#pragma once

#include <cstdint>

#include "base/shared_text.h"

namespace braze::graph {

struct Origin {
  SharedText file;         // the user's file
  int line = 0;            // 1-based; 0 unknown
  SharedText function;     // qualified name
  SharedText module_path;  // "layers.3.attention", empty outside modules
  SharedText call;         // Python-level call: "torch.sin", "F.linear"
  // Of which of the graph's checkpointed calls (torch.utils.checkpoint) it is a part, from 1 on:
  // what such a call computes is not kept for the backward, but made again there. 0: of none.
  int32_t checkpoint = 0;
  // Of a backward in the traced code: of the forward at that place.
  bool is_backward = false;
  // It makes `Tensor.data` of its operand, which shares no counter of versions with it.
  bool is_data = false;
  friend bool operator==(const Origin&, const Origin&) = default;
};
using OriginId = int32_t;  // index into Graph::origins(), -1: none

}  // namespace braze::graph
