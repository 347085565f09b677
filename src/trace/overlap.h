// Elements of one tensor that lie on elements of a second one.
#pragma once

#include <cstdint>

#include "graph/types.h"

namespace braze::trace {

enum class Overlap : uint8_t {
  kNone,
  kPartial,  // what reads one while it writes the other depends on the order of eager's kernel
  kFull,     // element on element
};

// Of two tensors in one storage, with the sizes seen. kNone also where they are too large to be
// looked through and nothing tells.
Overlap overlap_of(const graph::TensorType& a, const graph::TensorType& b);

}  // namespace braze::trace
