// The kinds of operators that the compiler knows. Apart from `op.h`, so that a line more in the
// list compiles those sources anew that name kinds.
#pragma once

#include <cstdint>

#include "graph/op.h"

namespace braze::graph {

enum class OpKind : uint16_t {
  kUnknown,
#define X(id, name, ...) k##id,
#include "graph/op_list.inc"
#undef X
  kCount,
};

}  // namespace braze::graph
