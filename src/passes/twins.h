// In-place ops and out= variants, and the functional ops that compute the same.
#pragma once

#include "graph/op.h"

namespace braze::passes {

// "aten.add_.Tensor" -> "aten.add.Tensor", "aten.add.out" -> "aten.add.Tensor", "aten.zero_" ->
// "aten.zeros_like", "aten.t_" -> "aten.t". Null: there is none, or it is not known.
const graph::Op* functional_twin(const graph::Op& op);

// Of an op that draws random numbers into a tensor: the one that gives them as a new, contiguous
// tensor, drawing the same where that tensor is contiguous too. "aten.bernoulli_.float" ->
// "aten.bernoulli.p". Null: there is none, or it is not known.
const graph::Op* drawing_twin(const graph::Op& op);

// Whether the op writes its result to an argument that is no operand ("aten.add.out").
bool is_out_variant(const graph::Op& op);

}  // namespace braze::passes
