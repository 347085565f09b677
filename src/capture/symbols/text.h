// Text of numbers that vary, in the evaluation: an object of a type of ours where the program has a
// str.
//
// Most text is printed and looked at by nobody. What str(), a format or an f-string gives of values
// of the entry state that nothing has read, or of symbols, is made when the compiled code runs, and
// the values are not guarded but by type. Whoever looks at such text is given the str itself, with
// guards on what it was made of.
#pragma once

#include <vector>

#include "capture/frames/frame.h"
#include "cpython/code.h"

namespace braze::capture {

struct TraceContext;

enum class TextFunction : uint8_t {
  kStr,
  kRepr,
  kAscii,
  kFormat,       // (value, spec)
  kJoin,         // the parts, one after the other
  kTemplate,     // str.format(text, ...)
  kOldTemplate,  // text % value
};
struct VaryingText {
  Ref object;  // what stands for it
  Ref now;     // in this call
  TextFunction function;
  std::vector<Tracked> args;  // unread, symbols, texts and constants
};

// The callable. Borrowed.
PyObject* text_function(TextFunction function);
// The result of the function for the arguments, of which some vary. Empty, with nothing pending,
// where it has to be computed now.
Tracked varying_text(TraceContext& trace, TextFunction function, std::vector<Tracked> args);
bool may_be_in_text(const Tracked& tracked);
const VaryingText& text_behind(TraceContext& trace, PyObject* object);
// The str itself.
Ref settle_text(TraceContext& trace, PyObject* object);
// Whether the instruction is of a kind that makes text. Asked at each.
inline bool may_make_text(const cpython::Instruction& in) {
  using cpython::Opcode;
  return in.op == Opcode::kFormatValue || in.op == Opcode::kBuildString ||
         in.op == Opcode::kBinaryOp || in.op == Opcode::kCall;
}
// Carries out such an instruction if it makes text that varies: `done`. False: an exception is
// pending.
bool make_text(TraceContext& trace, Frame& frame, const cpython::Instruction& in, bool& done);

}  // namespace braze::capture
