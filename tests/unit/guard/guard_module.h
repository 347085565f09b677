// The guard library as a small Python module, `guard_sets`, for the tests.
#pragma once

#include "cpython/ref.h"

namespace braze::guard::testing {

PyObject* make_module();

// What the tests share: Python source that defines `Capture`.
extern const char* const kPrelude;

}  // namespace braze::guard::testing
