// Inside of guard/: equality and text of Python values without running user code.
#pragma once

#include <string>

#include "cpython/ref.h"

namespace braze::guard {

// Same exact type and same value: None, bool, int, str, bytes; float and complex by bits; tuples
// (also named tuples, torch.Size), frozensets, ranges and slices of such; torch.device. Everything
// else (dtypes, enums, classes, functions): the same object.
bool same_value(PyObject* a, PyObject* b);

// Objects that cannot change and hold nothing that can: keeping a reference to one keeps no user's
// data alive. Scalars, strings, dtypes, devices, enums' classes apart, and tuples of such.
bool is_atom(PyObject* object);

// For messages: scalars and containers of them as Python writes them, other objects by their type.
std::string value_text(PyObject* object);

}  // namespace braze::guard
