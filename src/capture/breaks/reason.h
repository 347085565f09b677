// Why a piece of Python stays with CPython: a value, never an exception that is swallowed.
#pragma once

#include <string>
#include <vector>

namespace braze::capture {

// id, number, why, the way out. Numbers are for ever: a kind that is gone leaves a gap, a new one
// takes the next number of its hundred. An example of each: catalogue.cpp.
#define BRAZE_BREAK_KINDS(X)                                                                     \
  /* 1: tensor data */                                                                           \
  X(DataDependent, "B101", "the result depends on tensor data",                                  \
    "use torch.where or torch.cond, or move the read out of the compiled function")              \
  X(DataDependentSize, "B102", "the size of a result depends on tensor data",                    \
    "use an operator whose result has a known size (torch.where, a mask that is multiplied), "   \
    "or move the call out of the compiled function")                                             \
  X(TensorAsText, "B103", "a tensor as text shows its data",                                     \
    "move the formatting out of the compiled function, or format its shape and dtype only")      \
  X(ControlFlow, "B104", "a torch.cond or torch.while_loop on data that cannot be a graph",      \
    "let branches return new tensors of the same sizes, strides and dtypes, and change nothing " \
    "else")                                                                                      \
  /* 2: tensors and operators */                                                                 \
  X(UntraceableOp, "B201", "an operator that cannot be traced",                                  \
    "call it outside the compiled function, or wrap that part with braze.disable")               \
  X(UnsupportedTensor, "B202", "a tensor of a kind that is not supported",                       \
    "convert it to a dense tensor of a supported dtype before the call")                         \
  X(TensorInternals, "B203", "it reads or changes what lies behind a tensor, not its values",    \
    "move it out of the compiled function")                                                      \
  X(Autograd, "B204", "gradients through this call cannot be compiled",                          \
    "it trains in eager; where no gradients are wanted, run it under torch.no_grad()")           \
  X(TorchState, "B205", "a switch of PyTorch would stay changed after the call",                 \
    "use it as a context manager inside the function, or set it outside")                        \
  /* 3: side effects */                                                                          \
  X(SideEffect, "B301", "a side effect on an object from outside that cannot be replayed",       \
    "move it out of the compiled function")                                                      \
  X(OutsideIterator, "B302", "advancing an iterator that exists outside cannot be undone",       \
    "make the iterator inside the function, or pass a list")                                     \
  X(OutsideException, "B303", "raising an exception object from outside changes its traceback",  \
    "raise a new exception")                                                                     \
  X(ContextVariable, "B304", "a context variable would stay set after the call",                 \
    "set it outside the compiled function")                                                      \
  X(PendingChange, "B305", "native code would look at an object that this function has changed", \
    "look at the changed object itself, or change it after this call")                           \
  /* 4: native code */                                                                           \
  X(NativeCall, "B401", "a call of native code that may change objects from outside",            \
    "move it out of the compiled function")                                                      \
  X(NativeObject, "B402", "what native code keeps inside this object cannot be seen or guarded", \
    "read it outside the compiled function and pass the value")                                  \
  X(Numpy, "B403", "numpy works on data, and while tracing there is none",                       \
    "use the torch function of the same name, or call numpy outside the compiled function")      \
  /* 5: input and output */                                                                      \
  X(Output, "B501", "printed or written output",                                                 \
    "move it out of the compiled function or use logging")                                       \
  X(Input, "B502", "input that is different at every call",                                      \
    "read it outside the compiled function and pass what was read")                              \
  X(Debugger, "B503", "the debugger stops a program that runs; a trace does not",                \
    "debug with BRAZE_DISABLE=1")                                                                \
  X(Logging, "B504", "a log message about an object, an exception or the caller",                \
    "log plain values (numbers, strings, shapes), or log outside the compiled function")         \
  /* 6: Python */                                                                                \
  X(UnsupportedBytecode, "B601", "a Python construct that is not evaluated yet",                 \
    "rewrite the line or disable the function")                                                  \
  X(ClassStatement, "B602", "a class is a new object each time its statement runs",              \
    "define the class outside the compiled function")                                            \
  X(RuntimeCode, "B603", "code that is made while the program runs",                             \
    "make the code outside the compiled function")                                               \
  X(Introspection, "B604", "it hands out every variable, attribute or frame at once",            \
    "name what is needed")                                                                       \
  X(Import, "B605", "an import that does more than find a module",                               \
    "import it at the top of the file")                                                          \
  X(Suspends, "B606",                                                                            \
    "what follows runs when the generator or coroutine is resumed, compiled again",              \
    "none is needed; for one graph compile the function that uses it, or return a list")         \
  X(Recursion, "B607", "calls that nest too deeply to trace",                                    \
    "compile the inner function, or use a loop")                                                 \
  X(Address, "B608", "an address is different in every process and after every call",            \
    "do not let id(), hash() or the default repr() of an object into the result")                \
  X(Mapping, "B609", "a mapping that is not a dict runs code of its own to be unpacked",         \
    "pass a dict that was made of it outside the compiled function")                             \
  X(Result, "B610", "a result that cannot be made again from the graph's outputs",               \
    "return tensors, numbers, strings, containers or instances of Python classes")               \
  /* 7: what the user asked for */                                                               \
  X(Disabled, "B701", "the function is marked with braze.disable", "remove the mark")            \
  X(GraphBreak, "B702", "a call of braze.graph_break() asks for a break", "remove the call")     \
  /* 8: exceptions */                                                                            \
  X(Exception, "B801", "an exception was raised while tracing", "it is raised again in eager")   \
  X(Traceback, "B802", "an exception raised while tracing has no frames to show",                \
    "read tracebacks outside the compiled function")                                             \
  /* 9: Braze */                                                                                 \
  X(Unsupported, "B901", "not supported", "see the message")                                     \
  X(TorchMode, "B902",                                                                           \
    "a torch function or dispatch mode sees every call, compiled code makes "                    \
    "none",                                                                                      \
    "leave the mode before the call")                                                            \
  X(TraceBudget, "B903", "the trace takes too long to be worth it",                              \
    "compile the inner functions, or make the loop shorter")                                     \
  X(Internal, "B904", "a defect of Braze", "please report it; BRAZE_STRICT=1 raises it")

enum class BreakKind : unsigned char {
#define X(id, number, why, way_out) k##id,
  BRAZE_BREAK_KINDS(X)
#undef X
};

// A line of a stack, with the expression on it where CPython knows it.
struct StackEntry {
  std::string file;
  int line = 0;
  std::string function;
  int end_line = 0;                  // of the expression; 0: not known
  int column = -1, end_column = -1;  // in UTF-8 bytes, from 0
};

struct BreakReason {
  BreakKind kind = BreakKind::kUnsupported;
  std::string what;               // "print(): writes output"
  std::vector<StackEntry> stack;  // innermost first; stack[0] is the user's line
  std::string object = {};        // "self.table, a 'Table' object"; empty: no object is to blame
};

// "B501"
const char* number_of(BreakKind kind);

// Several lines: number and what, where with the source line and a caret line under the expression,
// the object, why, the way out. Needs the GIL: the lines come from Python's `linecache`.
std::string to_string(const BreakReason& reason);

}  // namespace braze::capture
