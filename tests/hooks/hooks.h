// What the tests see of a trace and of a capture that no user does: the Python module `_test_hooks`
// in the extension's shared library, with the option BRAZE_TEST_HOOKS alone. `bench/hooks.py` loads
// it.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <ATen/core/Tensor.h>
#include <Python.h>

#include <vector>

#include "graph/graph.h"

namespace braze::trace {

// Runs the graph's nodes one by one through PyTorch's dispatcher, below autograd and for the sizes
// that were traced. `inputs` by graph input; in-place ops change them.
std::vector<at::Tensor> replay_as_traced(const graph::Graph& graph,
                                         const std::vector<at::Tensor>& inputs);

// Adds `trace(fn, args, options={})` to the module.
//
// It calls `fn(*args)` under a tracer and ends the trace with the tensors of the result (a tensor,
// or a tuple or list of tensors) as outputs. Tensors among `args` are declared as "arg0", ...; if
// `fn` is a module (has `named_parameters`), its parameters and buffers too, by their names.
// `options`: "symbolic": names of arguments ("arg0") whose sizes are symbols.
//
// A dict: "graph" (text), "inputs" (list of (tensor, kind, name)), "outputs" (the fakes or outside
// tensors), "types" (text of the output types), "rules" (the nodes whose types differ from those of
// the rules in graph/infer/), "needs_autograd", "guards", "nodes",
// "probes" (the kernels that ran for real to see what they give), "replay" (a callable of no
// arguments: runs the graph on the inputs, gives the outputs), "seconds" (of the call of `fn`
// alone). Raises what `fn` raises, TraceBreak included.
bool add_hooks(PyObject* module);

}  // namespace braze::trace

namespace braze::capture {

// Adds `capture(function, args, kwargs={}, record=False, dynamic=False)` to the module, and
// `torch_code_list()`, the rows of src/capture/policy/torch_code.h.
//
// `function`: a Python function or a method of one. `dynamic`: sizes of 2 and more are symbols. It
// gives a dict:
//   "exit" ("return", "break", "raise" or "give up"), "offset", "graph", "recipe", "reason"
//   (texts), "kind" (of the reason), "guards" (texts), "inputs" (texts of the sources), "calls"
//   (the torch-level calls), "nodes", "bytecodes", "seconds", "probes" (the kernels that ran for
//   real to see what they give), "run": a callable of no arguments that does what compiled code
//   would: runs the graph, makes the results and side effects, goes on in the function where
//   capture gave up; gives its result.
bool add_hooks(PyObject* module);

}  // namespace braze::capture

namespace braze::runtime {

// Adds `repeat_on_cpu()` to the module: from now on functions under "cuda_graphs" on a CPU use
// memory as they would on a GPU, and run step by step where a graph would be launched.
bool add_hooks(PyObject* module);

}  // namespace braze::runtime
