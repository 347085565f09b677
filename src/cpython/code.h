// Code objects decoded once to the version-free instruction set.
#pragma once

#include <memory>
#include <vector>

#include "cpython/opcodes.h"
#include "cpython/ref.h"

namespace braze::cpython {

inline constexpr size_t kBytesPerUnit = 2;  // of co_code

struct Instruction {
  Opcode op = Opcode::kNop;
  uint8_t raw = 0;  // CPython's opcode number, for messages
  // The NULL that stands beside a callable without `self` (LoadGlobal, LoadMethod, LoadSuperAttr,
  // Call, CallKw, CallFunctionEx): below the callable (3.11, 3.12) or above it (3.13).
  bool null_below = false;
  // A frame can be entered here. False for the second half of a superinstruction and for EndSend
  // on 3.11, which CPython does not have as an instruction: there is no offset that means it.
  bool enterable = true;
  int32_t arg = 0;      // Unsupported: CPython's own argument
  int32_t offset = 0;   // in code units from the start of co_code, of its first EXTENDED_ARG
  int32_t target = -1;  // jumps: index into DecodedCode::instructions
};

struct ExceptionHandler {
  int start, end;  // instruction indices, [start, end)
  int target;      // instruction index
  int depth;       // stack depth to unwind to
  bool push_lasti;
};

struct DecodedCode {
  PyCodeObject* code = nullptr;  // strong
  std::vector<Instruction> instructions;
  std::vector<ExceptionHandler> handlers;  // innermost first

  const ExceptionHandler* handler(int instruction) const;
  int line(int instruction) const;
  int index_of_offset(int code_units) const;  // enterable instruction at or after that offset
};

// What asynchronous code an unsupported instruction belongs to; null: none.
const char* asynchronous_part(const Instruction& instruction);

// Memoised by code object (kept alive for ever, like the code's own caches).
const DecodedCode& decode(PyCodeObject* code);

// What the instruction adds to the depth of the value stack. `jump`: when it goes to its target.
int stack_effect(const Instruction& instruction, bool jump);

// Depth of the value stack before each instruction; -1 where no path leads. Throws InternalError
// if paths disagree, the stack runs empty or is deeper than co_stacksize: the decoding is wrong.
std::vector<int> stack_depths(const DecodedCode& code);

}  // namespace braze::cpython
