// An entry as a Python dict, for `explain` and tests.
#pragma once

#include "cpython/ref.h"
#include "dispatch/entry.h"

namespace braze::dispatch {

PyObject* report_of(const Entry& entry, PyObject* parameter_names);

}  // namespace braze::dispatch
