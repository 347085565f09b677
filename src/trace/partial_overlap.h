// Elements of one tensor that lie on other elements of a second one.
#pragma once

#include "graph/types.h"

namespace braze::trace {

// Of two tensors in one storage, with the sizes seen. What reads one while it writes the other
// depends on the order in which eager's kernel goes through the elements. False if the tensors lie
// element on element, and where they are too large to be looked through and nothing tells.
bool overlap_partially(const graph::TensorType& a, const graph::TensorType& b);

}  // namespace braze::trace
