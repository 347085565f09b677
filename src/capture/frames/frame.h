// A frame under evaluation.
#pragma once

#include <string>
#include <vector>

#include "base/shared_text.h"
#include "capture/policy/policy.h"
#include "capture/world/tracked.h"
#include "cpython/code.h"

namespace braze::capture {

// What is known of a code object.
struct CodeInfo {
  const cpython::DecodedCode* decoded;
  CodePolicy policy;
  const LibraryBreak* library_break;
  SharedText file, function;       // the function's qualified name
  mutable std::vector<int> lines;  // by instruction, where it has been asked for; else 0

  PyCodeObject* code() const { return decoded->code; }
  bool knows_line(int instruction) const { return lines[static_cast<size_t>(instruction)] != 0; }
  int line(int instruction) const {
    int& known = lines[static_cast<size_t>(instruction)];
    if (known == 0) known = decoded->line(instruction);
    return known;
  }
};
const CodeInfo& code_info(PyCodeObject* code, PyObject* globals);

struct Frame {
  const CodeInfo* info = nullptr;
  Ref function, globals, builtins;
  Ref names;  // the namespace of a class body
  std::vector<Tracked> locals, stack;
  Ref kwnames;
  Frame* back = nullptr;
  int pc = 0;
  int64_t executed = 0;
  bool outside_function = false;  // the function existed before the trace

  PyFunctionObject* function_object() const {
    return reinterpret_cast<PyFunctionObject*>(function.get());
  }
  PyCodeObject* code() const { return info->code(); }
  int current() const { return pc > 0 ? pc - 1 : 0; }  // the instruction under way
  int line() const { return info->line(current()); }

  // The value stack. peek(1) is the top.
  Tracked pop() {
    Tracked tracked = std::move(stack.back());
    stack.pop_back();
    return tracked;
  }
  Tracked& peek(int n) { return stack[stack.size() - static_cast<size_t>(n)]; }
  void drop(int n) { stack.resize(stack.size() - static_cast<size_t>(n)); }
  // False for an empty Tracked: what was to be pushed has failed.
  bool push(Tracked tracked) {
    if (!tracked) return false;
    stack.push_back(std::move(tracked));
    return true;
  }
};

enum class Status : uint8_t { kReturn, kYield, kError, kStopped };

}  // namespace braze::capture
