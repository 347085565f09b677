#include "cpython/ref.h"

// Of 3.12 and 3.13, which differ in few instructions.
#if PY_VERSION_HEX >= 0x030C0000
#include <opcode.h>

#include "cpython/decode.h"

namespace braze::cpython::internal {

const uint8_t kCache = CACHE, kExtendedArg = EXTENDED_ARG;

namespace {

#if PY_VERSION_HEX >= 0x030D0000
constexpr bool kNullBelow = false;
constexpr int kAfterLoop = 2;  // END_FOR, POP_TOP

// Bit 4 asks for a bool.
int comparison(int arg) { return arg >> 5 | ((arg & 16) != 0 ? 256 : 0); }
#else
constexpr bool kNullBelow = true;
constexpr int kAfterLoop = 1;  // END_FOR

int comparison(int arg) { return arg >> 4; }
#endif

// Operands of CALL_INTRINSIC_1 and _2 (pycore_intrinsics.h).
enum Intrinsic1 { kImportStar = 2, kStopIterationError = 3, kUnaryPositive = 5, kListToTuple = 6 };
enum Intrinsic2 { kPrepReraiseStar = 1 };

bool translate_jump(const RawInstruction& raw, Emitter& out) {
  const int forward = raw.next + raw.arg;
  switch (raw.op) {
    case JUMP_FORWARD:
      out.jump(Opcode::kJump, forward);
      return true;
    case JUMP_BACKWARD:
    case JUMP_BACKWARD_NO_INTERRUPT:
      out.jump(Opcode::kJump, raw.next - raw.arg);
      return true;
    case POP_JUMP_IF_FALSE:
      out.jump(Opcode::kPopJumpIfFalse, forward);
      return true;
    case POP_JUMP_IF_TRUE:
      out.jump(Opcode::kPopJumpIfTrue, forward);
      return true;
    case POP_JUMP_IF_NONE:
      out.jump(Opcode::kPopJumpIfNone, forward);
      return true;
    case POP_JUMP_IF_NOT_NONE:
      out.jump(Opcode::kPopJumpIfNotNone, forward);
      return true;
    // The operand leads to what ends the loop, which an exhausted iterator jumps over.
    case FOR_ITER:
      out.jump(Opcode::kForIter, forward + kAfterLoop);
      return true;
    case SEND:
      out.jump(Opcode::kSend, forward);
      return true;
  }
  return false;
}

bool translate_intrinsic(const RawInstruction& raw, Emitter& out) {
  if (raw.op == CALL_INTRINSIC_2) {
    if (raw.arg != kPrepReraiseStar) return false;
    out.emit(Opcode::kPrepReraiseStar);
    return true;
  }
  switch (raw.arg) {
    case kImportStar:
      out.emit(Opcode::kImportStar);
      out.skip_next_pop();  // of the None that the intrinsic leaves
      return true;
    case kStopIterationError:
      out.emit(Opcode::kStopIterationError);
      return true;
    case kUnaryPositive:
      out.emit(Opcode::kUnaryPositive);
      return true;
    case kListToTuple:
      out.emit(Opcode::kListToTuple);
      return true;
  }
  return false;
}

#define BRAZE_SAME(raw_name, name)  \
  case raw_name:                    \
    out.emit(Opcode::k##name, arg); \
    return true;

#if PY_VERSION_HEX >= 0x030D0000
bool translate_own(const RawInstruction& raw, Emitter& out) {
  const int arg = raw.arg;
  auto pair = [&](Opcode first, Opcode second) {
    out.emit(first, arg >> 4);
    out.emit(second, arg & 15);
    return true;
  };
  switch (raw.op) {
    case CALL_KW:
      out.emit_call(Opcode::kCallKw, arg, kNullBelow);
      return true;
    case LOAD_FAST_LOAD_FAST:
      return pair(Opcode::kLoadFast, Opcode::kLoadFast);
    case STORE_FAST_LOAD_FAST:
      return pair(Opcode::kStoreFast, Opcode::kLoadFast);
    case STORE_FAST_STORE_FAST:
      return pair(Opcode::kStoreFast, Opcode::kStoreFast);
    case END_FOR:  // no path leads here; what it would do
      out.emit(Opcode::kPopTop);
      return true;
    case FORMAT_SIMPLE:
      out.emit(Opcode::kFormatValue, 0);
      return true;
    case FORMAT_WITH_SPEC:
      out.emit(Opcode::kFormatValue, 4);
      return true;
    case MAKE_FUNCTION:
      out.emit(Opcode::kMakeFunction, 0);
      return true;
      BRAZE_SAME(TO_BOOL, ToBool)
      BRAZE_SAME(CONVERT_VALUE, ConvertValue)
      BRAZE_SAME(SET_FUNCTION_ATTRIBUTE, SetFunctionAttribute)
  }
  return false;
}
#else
bool translate_own(const RawInstruction& raw, Emitter& out) {
  const int arg = raw.arg;
  switch (raw.op) {
    case END_FOR:  // no path leads here; what it would do
      out.emit(Opcode::kPopTop);
      out.emit(Opcode::kPopTop);
      return true;
      BRAZE_SAME(LOAD_CLOSURE, LoadClosure)
      BRAZE_SAME(KW_NAMES, KwNames)
      BRAZE_SAME(FORMAT_VALUE, FormatValue)
      BRAZE_SAME(MAKE_FUNCTION, MakeFunction)
  }
  return false;
}
#endif

// The instructions that both have under one operand.
bool translate_same(const RawInstruction& raw, Emitter& out) {
  const int arg = raw.arg;
  switch (raw.op) {
#include "cpython/decode_same.inc"
    BRAZE_SAME(LOAD_FAST_CHECK, LoadFast)
    BRAZE_SAME(LOAD_FAST_AND_CLEAR, LoadFastAndClear)
    BRAZE_SAME(LOAD_LOCALS, LoadLocals)
    BRAZE_SAME(LOAD_FROM_DICT_OR_GLOBALS, LoadFromDictOrGlobals)
    BRAZE_SAME(LOAD_FROM_DICT_OR_DEREF, LoadFromDictOrDeref)
    BRAZE_SAME(BINARY_SLICE, BinarySlice)
    BRAZE_SAME(STORE_SLICE, StoreSlice)
    BRAZE_SAME(RETURN_CONST, ReturnConst)
    BRAZE_SAME(END_SEND, EndSend)
    BRAZE_SAME(CLEANUP_THROW, CleanupThrow)
  }
  return false;
}
#undef BRAZE_SAME

}  // namespace

void translate(const RawInstruction& raw, Emitter& out) {
  if (out.take_skip_pop() && raw.op == POP_TOP) return;
  if (translate_jump(raw, out) || translate_own(raw, out) || translate_same(raw, out)) return;
  const int arg = raw.arg;
  switch (raw.op) {
    case NOP:
    case RESUME:
      out.emit(Opcode::kNop);
      return;
    case LOAD_GLOBAL:
      out.emit_call(Opcode::kLoadGlobal, arg, kNullBelow);
      return;
    case LOAD_SUPER_ATTR:
      out.emit_call(Opcode::kLoadSuperAttr, arg, kNullBelow);
      return;
    case CALL:
      out.emit_call(Opcode::kCall, arg, kNullBelow);
      return;
    case CALL_FUNCTION_EX:
      out.emit_call(Opcode::kCallFunctionEx, arg, kNullBelow);
      return;
    case LOAD_ATTR:
      if ((arg & 1) != 0)
        out.emit_call(Opcode::kLoadMethod, arg >> 1, kNullBelow);
      else
        out.emit(Opcode::kLoadAttr, arg >> 1);
      return;
    case COMPARE_OP:
      out.emit(Opcode::kCompareOp, comparison(arg));
      return;
    case CALL_INTRINSIC_1:
    case CALL_INTRINSIC_2:
      if (!translate_intrinsic(raw, out)) out.unsupported();
      return;
    default:
      out.unsupported();
      return;
  }
}

}  // namespace braze::cpython::internal
#endif
