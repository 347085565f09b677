#include "cpython/ref.h"

#if PY_VERSION_HEX < 0x030C0000
#include <opcode.h>

#include "cpython/decode.h"

namespace braze::cpython::internal {

const uint8_t kCache = CACHE, kExtendedArg = EXTENDED_ARG;

namespace {

constexpr bool kNullBelow = true;

// Jumps; false if `raw` is none.
bool translate_jump(const RawInstruction& raw, Emitter& out) {
  const int forward = raw.next + raw.arg;
  const int backward = raw.next - raw.arg;
  switch (raw.op) {
    case JUMP_FORWARD:
      out.jump(Opcode::kJump, forward);
      return true;
    case JUMP_BACKWARD:
    case JUMP_BACKWARD_NO_INTERRUPT:
      out.jump(Opcode::kJump, backward);
      return true;
    case POP_JUMP_FORWARD_IF_FALSE:
      out.jump(Opcode::kPopJumpIfFalse, forward);
      return true;
    case POP_JUMP_FORWARD_IF_TRUE:
      out.jump(Opcode::kPopJumpIfTrue, forward);
      return true;
    case POP_JUMP_FORWARD_IF_NONE:
      out.jump(Opcode::kPopJumpIfNone, forward);
      return true;
    case POP_JUMP_FORWARD_IF_NOT_NONE:
      out.jump(Opcode::kPopJumpIfNotNone, forward);
      return true;
    case POP_JUMP_BACKWARD_IF_FALSE:
      out.jump(Opcode::kPopJumpIfFalse, backward);
      return true;
    case POP_JUMP_BACKWARD_IF_TRUE:
      out.jump(Opcode::kPopJumpIfTrue, backward);
      return true;
    case POP_JUMP_BACKWARD_IF_NONE:
      out.jump(Opcode::kPopJumpIfNone, backward);
      return true;
    case POP_JUMP_BACKWARD_IF_NOT_NONE:
      out.jump(Opcode::kPopJumpIfNotNone, backward);
      return true;
    case JUMP_IF_FALSE_OR_POP:
      out.jump(Opcode::kJumpIfFalseOrPop, forward);
      return true;
    case JUMP_IF_TRUE_OR_POP:
      out.jump(Opcode::kJumpIfTrueOrPop, forward);
      return true;
    case FOR_ITER:
      out.jump(Opcode::kForIter, forward);
      return true;
    case SEND:
      out.end_send_before(forward);
      out.jump(Opcode::kSend, forward);
      return true;
  }
  return false;
}

}  // namespace

void translate(const RawInstruction& raw, Emitter& out) {
  if (translate_jump(raw, out)) return;
  const int arg = raw.arg;
  switch (raw.op) {
    case PRECALL:
      return;  // Call does all of its work
    case NOP:
    case RESUME:
      out.emit(Opcode::kNop);
      return;
    case LOAD_GLOBAL:
      out.emit_call(Opcode::kLoadGlobal, arg, kNullBelow);
      return;
    case LOAD_METHOD:
      out.emit_call(Opcode::kLoadMethod, arg, kNullBelow);
      return;
    case CALL:
      out.emit_call(Opcode::kCall, arg, kNullBelow);
      return;
    case CALL_FUNCTION_EX:
      out.emit_call(Opcode::kCallFunctionEx, arg, kNullBelow);
      return;
#define BRAZE_SAME(raw_name, name)  \
  case raw_name:                    \
    out.emit(Opcode::k##name, arg); \
    return;
#include "cpython/decode_same.inc"
      BRAZE_SAME(UNARY_POSITIVE, UnaryPositive)
      BRAZE_SAME(LIST_TO_TUPLE, ListToTuple)
      BRAZE_SAME(IMPORT_STAR, ImportStar)
      BRAZE_SAME(PREP_RERAISE_STAR, PrepReraiseStar)
      BRAZE_SAME(LOAD_CLASSDEREF, LoadClassDeref)
      BRAZE_SAME(LOAD_CLOSURE, LoadClosure)
      BRAZE_SAME(LOAD_ATTR, LoadAttr)
      BRAZE_SAME(COMPARE_OP, CompareOp)
      BRAZE_SAME(KW_NAMES, KwNames)
      BRAZE_SAME(FORMAT_VALUE, FormatValue)
      BRAZE_SAME(MAKE_FUNCTION, MakeFunction)
#undef BRAZE_SAME
    default:
      out.unsupported();
      return;
  }
}

}  // namespace braze::cpython::internal
#endif
