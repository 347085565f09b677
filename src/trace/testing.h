// Entry point of the tests: trace a Python function natively and run the graph with real ops.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <ATen/core/Tensor.h>
#include <Python.h>

#include <vector>

#include "graph/graph.h"

namespace braze::trace {

// Runs the graph's nodes one by one through PyTorch's dispatcher, below autograd. `inputs` by graph
// input; in-place ops change them.
std::vector<at::Tensor> replay(const graph::Graph& graph, const std::vector<at::Tensor>& inputs);

// Calls `fn(*args)` under a tracer and ends the trace with the tensors of the result (a tensor, or
// a tuple or list of tensors) as outputs. Tensors among `args` are declared as "arg0", ...; if `fn`
// is a module (has `named_parameters`), its parameters and buffers too, by their names.
// `options`: dict or NULL; "symbolic": names of arguments ("arg0") whose sizes are symbols.
//
// A dict: "graph" (text), "inputs" (list of (tensor, kind, name)), "outputs" (the fakes or outside
// tensors), "types" (text of the output types), "needs_autograd", "guards", "nodes",
// "replay" (a callable of no arguments: runs the graph on the inputs, gives the outputs),
// "seconds" (of the call of `fn` alone). Raises what `fn` raises, TraceBreak included.
PyObject* trace_function_for_test(PyObject* fn, PyObject* args, PyObject* options = nullptr);

// Adds it to the module as `trace_for_test(fn, args, options={})`.
bool add_test_functions(PyObject* module);

}  // namespace braze::trace
