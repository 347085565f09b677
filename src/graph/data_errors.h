// Operators that may refuse the data in their operands: an index out of range, an integer divided
// by zero, a matrix without an inverse.
//
// Eager raises whether the result is used or not. So such a node stays where its result is of no
// use (passes/dce.h), its checks are made where nothing reads its elements (loop/lowering/), and a
// call that has drawn random numbers before can still be run again (runtime/executable.h).
#pragma once

#include "graph/graph.h"

namespace braze::graph {

// Whether some data make eager raise, of operands with the sizes and dtypes that these have. Of an
// op that the compiler does not know: unless total_ops.inc has its name.
bool may_refuse_data(const Node& node);
// The same of any call of an op.
bool may_refuse_data(const Op& op);

}  // namespace braze::graph
