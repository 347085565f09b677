// `braze._C.CompiledFunction`: the callable that users hold. A C vectorcall: bind the arguments,
// find the entry that fits, run it; on a miss, compile.
#pragma once

#include "cpython/ref.h"

namespace braze::dispatch {

// Creates the types of this folder and puts them into the module. False with an exception set.
bool initialize(PyObject* module);

}  // namespace braze::dispatch
