// Index checks in expressions, which are made whether or not the value is of use.
#pragma once

#include <vector>

#include "loop/ir.h"

namespace braze::loop {

// What makes checks wherever `expr` is evaluated, each once: kCheckIndex nodes, and kMasked nodes
// with a check below their condition, which is made where that holds.
std::vector<ExprRef> checks_in(ExprRef expr);

}  // namespace braze::loop
