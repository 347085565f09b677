// Functions that the user has marked: those that stay in eager, those whose result is a constant,
// those that are one node of the graph that a backend of the user's is given.
#pragma once

#include <vector>

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

// What functions marked with assume_constant_result gave: each is called once in a capture, whose
// traces make the same calls.
struct ConstantResult {
  Ref function, result;
};
using ConstantResults = std::vector<ConstantResult>;

// The attribute that says that the function stays in eager; null without one.
PyObject* disable_mark(PyFunctionObject* function);
// What PyTorch's compiler has put a disabled function in the place of, where both are of an
// optimizer: that it cannot trace it is no wish of the user's. Null for all others.
PyObject* own_function_that_torch_disables(PyFunctionObject* function);
// `done` is false for a function that is called like any other.
Tracked call_marked(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                    PyObject* kwnames, bool& done);

}  // namespace braze::capture
