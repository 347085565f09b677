// Symbolic evaluation of a Python function: real objects, fake tensors, nothing outside changed.
#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "capture/break_reason.h"
#include "capture/recipe.h"
#include "graph/graph.h"
#include "guard/guard.h"

namespace braze::capture {

enum class ExitKind : uint8_t {
  kReturn,  // the whole function is in the graph
  kGiveUp,  // CPython goes on at recipe.offset with recipe.locals and recipe.stack; offset 0 with
            // an empty graph: the function runs in eager from its beginning
};

struct DraftInput {
  const guard::Source* source = nullptr;  // null: a constant made by the trace
  cpython::Ref tensor;                    // the real tensor (torch.Tensor object)
};

// What a capture gives: a graph, where its inputs come from, what must hold, and the exit.
struct Draft {
  graph::Graph graph;
  std::vector<DraftInput> inputs;  // by graph input
  std::shared_ptr<guard::SourceArena> sources;
  std::vector<guard::Guard> guards;
  ExitKind exit = ExitKind::kGiveUp;
  Recipe recipe;
  std::optional<BreakReason> reason;  // kGiveUp
  // Torch-level calls in order, when asked for: a list of
  // (callable, args tuple, kwargs dict, result, (file, line, function)) with the traced objects.
  cpython::Ref torch_calls;
  cpython::Ref result;   // with torch_calls: the traced result (holds fakes)
  cpython::Ref outputs;  // with torch_calls: list of the traced tensors, by graph output
  struct Statistics {
    int64_t bytecodes = 0, inlined_calls = 0, guards = 0, nodes = 0;
    double trace_seconds = 0, total_seconds = 0;
  } statistics;
};

std::string to_string(const Draft& draft);

struct Options {
  bool record_torch_calls = false;
};

// Captures `function` called with these bound parameters (cpython::bind_arguments). Never raises
// for what the user's code does: that is a break, also where it raises (eager raises it again).
// Null with an exception pending for KeyboardInterrupt; C++ InternalError for a defect. Whatever
// happens, nothing outside has changed and the thread's torch state is as before.
std::unique_ptr<Draft> capture(PyFunctionObject* function, PyObject* const* args,
                               const Options& options);

// Types and functions of PyTorch and the library that the evaluator compares with; once, at import.
bool initialize(PyObject* module);

// Python functions that are evaluated in the place of others: a dict, kept and only read.
void set_substitutes(PyObject* functions);

}  // namespace braze::capture
