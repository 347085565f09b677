// Entry point of the tests: capture a call, look at the draft, carry it out with real ops.
#pragma once

#include "cpython/ref.h"

namespace braze::capture {

// Adds `capture_for_test(function, args, kwargs={}, record=False, dynamic=False)` to the module.
// `function`: a Python function or a method of one. `dynamic`: sizes of 2 and more are symbols. It
// gives a dict:
//   "exit" ("return", "break", "raise" or "give up"), "offset", "graph", "recipe", "reason"
//   (texts), "kind" (of the reason), "guards" (texts), "inputs" (texts of the sources), "calls"
//   (the torch-level calls), "nodes", "bytecodes", "seconds", "run": a callable of no arguments
//   that does what compiled code would: runs the graph, makes the results and side effects, goes on
//   in the function where capture gave up; gives its result.
bool add_test_functions(PyObject* module);

}  // namespace braze::capture
