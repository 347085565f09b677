// Finalisers of objects: `__del__`, closing of generators.
#pragma once

#include "cpython/ref.h"

namespace braze::cpython {

// The object's finaliser is taken for run: it dies without a word. For objects that the garbage
// collector knows; others are left alone.
void skip_finaliser(PyObject* object);

// The generator has returned, raised or been closed: its finaliser does nothing.
bool is_finished(PyObject* generator);

}  // namespace braze::cpython
