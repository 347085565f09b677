// Why a piece of Python stays with CPython: a value, never an exception that is swallowed.
#pragma once

#include <string>
#include <vector>

namespace braze::capture {

// id, short text, the way out
#define BRAZE_BREAK_KINDS(X)                                                                    \
  X(DataDependent, "the result depends on tensor data",                                         \
    "use torch.where or torch.cond, or move the read out of the compiled function")             \
  X(UntraceableOp, "an operator that cannot be traced",                                         \
    "call it outside the compiled function, or wrap that part with braze.disable")              \
  X(UnsupportedTensor, "a tensor of a kind that is not supported",                              \
    "convert it to a dense tensor of a supported dtype before the call")                        \
  X(UnsupportedBytecode, "a Python construct that is not evaluated yet",                        \
    "rewrite the line or disable the function")                                                 \
  X(SideEffect, "a side effect on an object from outside that cannot be replayed",              \
    "move it out of the compiled function")                                                     \
  X(NativeCall, "a call of native code that may change objects from outside",                   \
    "move it out of the compiled function")                                                     \
  X(Output, "printed or written output", "move it out of the compiled function or use logging") \
  X(Exception, "an exception was raised while tracing", "it is raised again in eager")          \
  X(Autograd, "autograd would record this call",                                                \
    "run it under torch.no_grad() or torch.inference_mode()")                                   \
  X(Disabled, "the function is marked with braze.disable", "remove the mark")                   \
  X(Unsupported, "not supported", "see the message")

enum class BreakKind : unsigned char {
#define X(id, text, fix) k##id,
  BRAZE_BREAK_KINDS(X)
#undef X
};

struct StackEntry {
  std::string file;
  int line = 0;
  std::string function;
};

struct BreakReason {
  BreakKind kind = BreakKind::kUnsupported;
  std::string what;               // "print(): builtin that writes output"
  std::vector<StackEntry> stack;  // innermost first; stack[0] is the user's line
};

// Several lines: what, where with the source line, why, the way out.
std::string to_string(const BreakReason& reason);

}  // namespace braze::capture
