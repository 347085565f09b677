// Inside of guard/: one step of reading a source again. A new reference; empty, with no exception
// pending, when it is absent.
#pragma once

#include "guard/source.h"

namespace braze::guard {

// Of a source without base.
cpython::Ref resolve_root(const Source* source, PyObject* function, PyObject* const* args);
// Of a source whose base is `base`, and which has no other.
cpython::Ref resolve_step(const Source* source, PyObject* base);
// Of a source whose base is `base`; another one that it has is read again from its root.
cpython::Ref resolve_step(const Source* source, PyObject* base, PyObject* function,
                          PyObject* const* args);

// A collections.deque, which has no C API of its own, or of a subclass.
bool is_deque(PyObject* object);

}  // namespace braze::guard
