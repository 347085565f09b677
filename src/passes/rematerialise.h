// Makes values again for a backward in the same graph, instead of holding them from the forward on.
//
// Needs: a functional graph without common subexpressions, which would put together again what this
// takes apart. Guarantees: the same results.
//
//   before                                            after
//   %1 = aten.mm(%0, %0)                              %1 = aten.mm(%0, %0)
//   %2 = aten.exp(%1)                                 %2 = aten.exp(%1)
//   %3 = aten.sum(%2)                                 %3 = aten.sum(%2)
//   ...                                               ...
//   %8 = aten.mm(%7, %1)       // of the backward     %8 = aten.mm(%7, %1)
//   %9 = aten.mul(%8, %2)      // of the backward     %10 = aten.exp(%1)
//                                                     %9 = aten.mul(%8, %10)
//
// A node belongs to the backward where its origin says so (graph::Origin::is_backward), or where it
// takes something that does. What is made again is what partition.h makes again: views, what is
// made of nothing or of a seed, what is pointwise of values that are held anyway, and what
// torch.utils.checkpoint wraps; each as late as it is needed.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace braze::passes {

// Whether the graph changed.
bool rematerialise(graph::Graph& graph);

// Makes more again where the backward would hold more bytes than that (activation_budget.h).
bool rematerialise_within(graph::Graph& graph, int64_t activation_memory);

}  // namespace braze::passes
