// Symbolic evaluation of a Python function: real objects, fake tensors, nothing outside changed.
#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "capture/breaks/reason.h"
#include "capture/dynamic.h"
#include "graph/graph.h"
#include "graph/joint.h"
#include "guard/guard.h"
#include "recipe/recipe.h"

namespace braze::capture {

enum class ExitKind : uint8_t {
  kReturn,  // the whole function is in the graph
  kBreak,   // the frame goes on at the breaking instruction, recipe.offset, which is to be carried
            // out for real; `traced` says how it gets there
  kRaise,   // as kBreak, always traced: what that instruction does raises an exception that leaves
            // the function. CPython raises it, and so is right also where it would not
  kGiveUp,  // CPython goes on from where the capture began
};

// The frame is put into a state in its middle and goes on from there.
constexpr bool goes_on_in_frame(ExitKind exit) {
  return exit == ExitKind::kBreak || exit == ExitKind::kRaise;
}

struct DraftInput {
  const guard::Source* source = nullptr;  // null: a constant made by the trace
  cpython::Ref tensor;                    // the real tensor (torch.Tensor object)
};

// What a capture gives: a graph, where its inputs come from, what must hold, and the exit.
struct Draft {
  graph::Graph graph;
  graph::Joint joint;  // where results require grad, the backward is a part of the graph
  std::vector<DraftInput> inputs;      // by graph input, less the tangents
  std::vector<int> dropped_gradients;  // of these inputs: None before the graph runs
  std::shared_ptr<guard::SourceArena> sources;
  guard::Guards guards;
  guard::ShapeGuards shapes;  // with a symbolic graph
  bool had_symbols = false;   // at some time, and the code may be captured with numbers instead
  // Sources of integers that could have been symbols but had to be numbers.
  std::vector<std::string> fixed_integers;
  // Inputs of the graph, without a source, that hold Python floats: shapes.floats, in that order.
  std::vector<int> float_inputs;
  std::vector<std::string> fixed_floats;  // as fixed_integers
  // Symbols of the graph whose values come from data as it runs (trace::Trace), and what is to be
  // asserted of them. Without a source in `shapes`.
  std::vector<int> data_symbols;
  std::vector<sym::Condition> assertions;
  // A dimension that the user has marked as dynamic is not: what to tell. The draft is of no use.
  std::string user_error;
  ExitKind exit = ExitKind::kGiveUp;
  recipe::Recipe recipe;
  std::optional<BreakReason> reason;  // kBreak, kGiveUp
  // The graph and the recipe take the frame from the beginning of the segment to its exit. Else
  // CPython does.
  bool traced = false;
  // kRaise: there is no tensor operation between the exit and the end of the call.
  bool only_python_follows = false;
  // kBreak: the instructions (code units) where the evaluated path can be left, the breaking one
  // among them: where CPython, when it takes the path, is to hand the frame back.
  std::vector<int> leaves;
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
  // Where in the function's frame the segment begins, in code units, and how many entries the value
  // stack has there.
  int offset = 0;
  int stack_size = 0;
  // A segment without tensor operations is left to CPython.
  bool thrifty = false;
  // Of the frames that are driven now and have led to this one: what they make is made anew in each
  // of their calls.
  std::vector<PyFunctionObject*> callers = {};
  const DynamicSizes* dynamic = nullptr;  // null: every size is a number
  bool capture_scalars = false;           // integers read from data are symbols, no breaks
  bool capture_sizes = false;             // so are sizes that depend on data
};

// Captures a segment of a frame of `function`. At offset 0 `args` are the bound parameters
// (cpython::bind_arguments), else all locals and behind them the value stack, unset ones and NULLs
// null: what sources of kind kArgument count. Never raises
// for what the user's code does: that is a break, also where it raises (eager raises it again).
// Null with an exception pending for KeyboardInterrupt; C++ InternalError for a defect. Whatever
// happens, nothing outside has changed and the thread's torch state is as before.
std::unique_ptr<Draft> capture(PyFunctionObject* function, PyObject* const* args,
                               const Options& options);

// The names of what kArgument sources count, for messages.
cpython::Ref entry_names(PyCodeObject* code, const Options& options);

// Types and functions of PyTorch and the library that the evaluation compares with; once, at
// import.
bool initialize();

// Python functions that are evaluated in the place of others: dicts, kept and only read.
// `for_floats`: only where an argument is a float that varies. `checkpointed`: what it calls is
// made again in the backward.
void set_substitutes(PyObject* functions, PyObject* for_floats, PyObject* checkpointed);

}  // namespace braze::capture
