// Who compiles Triton for the run time (runtime/cuda/triton.h): Triton's own compiler, by way of
// python/braze/_triton.py.
#pragma once

#include "cpython/ref.h"

namespace braze::dispatch {

// Adds `compile_triton(version, compile)`, which installs the compiler. compile(sources, folder):
// for a list of (name, text, flags) a list of (shared bytes, pointers, cubin).
bool initialize_triton_compiler(PyObject* module);

}  // namespace braze::dispatch
