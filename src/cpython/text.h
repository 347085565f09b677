// Strings of Python as C++ reads them.
#pragma once

#include "cpython/ref.h"

namespace braze::cpython {

// The UTF-8 of a str, which owns it. Without lone surrogates, which have no encoding: a str that
// holds some is "?", which is the name of nothing; so is what is no str. Raises nothing, and leaves
// a pending exception.
const char* utf8_of(PyObject* object);

}  // namespace braze::cpython
