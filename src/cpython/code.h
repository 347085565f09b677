// Code objects decoded once to the version-free instruction set.
#pragma once

#include <memory>
#include <vector>

#include "cpython/opcodes.h"
#include "cpython/ref.h"

namespace braze::cpython {

struct Instruction {
  Opcode op = Opcode::kNop;
  uint8_t raw = 0;       // CPython's opcode number, for messages
  bool null_below = false;  // LoadGlobal with NULL: 3.11/3.12 push NULL below the value, 3.13 above
  int32_t arg = 0;
  int32_t offset = 0;    // in code units from the start of co_code
  int32_t target = -1;   // jumps: index into DecodedCode::instructions
};

struct ExceptionHandler {
  int start, end;   // instruction indices, [start, end)
  int target;       // instruction index
  int depth;        // stack depth to unwind to
  bool push_lasti;
};

struct DecodedCode {
  PyCodeObject* code = nullptr;  // strong
  std::vector<Instruction> instructions;
  std::vector<ExceptionHandler> handlers;  // innermost first

  const ExceptionHandler* handler(int instruction) const;
  int line(int instruction) const;
  int index_of_offset(int code_units) const;  // instruction at or after that offset
};

// Memoised by code object (kept alive for ever, like the code's own caches).
const DecodedCode& decode(PyCodeObject* code);

}  // namespace braze::cpython
