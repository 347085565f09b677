// An entry as a Python dict, for `explain` and tests.
#pragma once

#include "cpython/ref.h"
#include "dispatch/entry.h"

namespace braze::dispatch {

// Besides what was compiled: where the segment is ("file", "function", "line", "offset": what it
// begins with), how it ends ("exit": return, break, raise, give up) and where ("break_offset").
PyObject* report_of(const Entry& entry);

}  // namespace braze::dispatch
