// The order in which a set gives its members follows from all that was ever added to and removed
// from it, not from its members.
#pragma once

#include "cpython/ref.h"

namespace braze::cpython {

// Puts the members of `from`, a set or frozenset, into `to`, an empty set of any class, at the
// same places: iteration gives the same order, and goes on doing so when the same members are
// added or removed. False with MemoryError.
bool copy_set_layout(PyObject* from, PyObject* to);

}  // namespace braze::cpython
