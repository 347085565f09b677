// Index checks in expressions, which are made whether or not the value is of use.
#pragma once

#include <vector>

#include "loop/ir.h"

namespace braze::loop {

// The parts of `expr` that make checks wherever it is evaluated, each once: kCheckIndex nodes, and
// kMasked nodes over a check, which is made where their condition holds.
std::vector<ExprRef> checks_in(ExprRef expr);

}  // namespace braze::loop
