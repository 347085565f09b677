// Arrays and buffers within what native code is given: see `exports_memory` in
// capture/world/world.h.
#pragma once

#include "capture/breaks/breaks.h"
#include "capture/world/world.h"

namespace braze::capture {

// An object from outside that exports its memory, in `object` at any depth, or only among what
// iterating over it gives; null: there is none. Borrowed.
PyObject* memory_within(World& world, PyObject* object);
PyObject* memory_among_items(World& world, PyObject* object);

// A break: native code `what` may look into the memory.
bool refuse_memory(Breaks& breaks, PyObject* memory, const std::string& what);

}  // namespace braze::capture
