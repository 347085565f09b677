#include "base/error.h"
#include "cpython/code.h"
#include "cpython/text.h"

namespace braze::cpython {

namespace {

int make_function_effect(int flags) {
  int values = 0;
  for (int bit = 1; bit <= 8; bit <<= 1) values += (flags & bit) != 0;
  return -values;
}

// Walks all paths, depth before each instruction.
class DepthWalk {
 public:
  explicit DepthWalk(const DecodedCode& code)
      : code_(code), depths_(code.instructions.size(), -1) {}

  std::vector<int> run() {
    if (!depths_.empty()) reach(0, 0);
    while (!pending_.empty()) {
      const int index = pending_.back();
      pending_.pop_back();
      step(index);
    }
    return std::move(depths_);
  }

 private:
  void reach(int index, int depth) {
    BRAZE_CHECK(index >= 0 && index < static_cast<int>(depths_.size()), "leaves the code ", name());
    BRAZE_CHECK(depth >= 0 && depth <= code_.code->co_stacksize, "depth ", depth, " in ", name(),
                " at instruction ", index);
    int& known = depths_[index];
    BRAZE_CHECK(known < 0 || known == depth, "depths ", known, " and ", depth, " meet in ", name(),
                " at instruction ", index);
    if (known >= 0) return;
    known = depth;
    pending_.push_back(index);
  }

  void step(int index) {
    const Instruction& instruction = code_.instructions[index];
    const int depth = depths_[index];
    if (const ExceptionHandler* handler = code_.handler(index))
      reach(handler->target, handler->depth + handler->push_lasti + 1);
    if (instruction.target >= 0) reach(instruction.target, depth + stack_effect(instruction, true));
    switch (instruction.op) {
      case Opcode::kReturnValue:
      case Opcode::kReturnConst:
        BRAZE_CHECK(depth + (instruction.op == Opcode::kReturnConst) == 1, "returns from depth ",
                    depth, " in ", name(), " at instruction ", index);
        return;
      case Opcode::kJump:
      case Opcode::kRaiseVarargs:
      case Opcode::kReraise:
        return;
      default:
        break;
    }
    reach(index + 1, depth + stack_effect(instruction, false));
  }

  const char* name() const { return utf8_of(code_.code->co_qualname); }

  const DecodedCode& code_;
  std::vector<int> depths_;
  std::vector<int> pending_;
};

}  // namespace

int stack_effect(const Instruction& instruction, bool jump) {
  const int arg = instruction.arg;
  switch (instruction.op) {
    case Opcode::kNop:
    case Opcode::kSwap:
    case Opcode::kDeleteFast:
    case Opcode::kMakeCell:
    case Opcode::kCopyFreeVars:
    case Opcode::kDeleteDeref:
    case Opcode::kLoadFromDictOrDeref:
    case Opcode::kDeleteName:
    case Opcode::kDeleteGlobal:
    case Opcode::kLoadFromDictOrGlobals:
    case Opcode::kLoadAttr:
    case Opcode::kUnaryPositive:
    case Opcode::kUnaryNegative:
    case Opcode::kUnaryNot:
    case Opcode::kUnaryInvert:
    case Opcode::kToBool:
    case Opcode::kJump:
    case Opcode::kGetIter:
    case Opcode::kGetYieldFromIter:
    case Opcode::kSend:
    case Opcode::kYieldValue:
    case Opcode::kReturnConst:
    case Opcode::kConvertValue:
    case Opcode::kListToTuple:
    case Opcode::kKwNames:
    case Opcode::kStopIterationError:
    case Opcode::kCheckExcMatch:
    case Opcode::kCheckEgMatch:
    case Opcode::kSetupAnnotations:
      return 0;

    case Opcode::kPushNull:
    case Opcode::kCopy:
    case Opcode::kLoadConst:
    case Opcode::kLoadFast:
    case Opcode::kLoadFastAndClear:
    case Opcode::kLoadClosure:
    case Opcode::kLoadDeref:
    case Opcode::kLoadClassDeref:
    case Opcode::kLoadName:
    case Opcode::kLoadLocals:
    case Opcode::kLoadMethod:
    case Opcode::kReturnGenerator:
    case Opcode::kImportFrom:
    case Opcode::kLoadAssertionError:
    case Opcode::kLoadBuildClass:
    case Opcode::kBeforeWith:
    case Opcode::kWithExceptStart:
    case Opcode::kPushExcInfo:
    case Opcode::kGetLen:
    case Opcode::kMatchMapping:
    case Opcode::kMatchSequence:
    case Opcode::kMatchKeys:
      return 1;

    case Opcode::kPopTop:
    case Opcode::kStoreFast:
    case Opcode::kStoreDeref:
    case Opcode::kStoreName:
    case Opcode::kStoreGlobal:
    case Opcode::kDeleteAttr:
    case Opcode::kBinarySubscr:
    case Opcode::kBinaryOp:
    case Opcode::kCompareOp:
    case Opcode::kIsOp:
    case Opcode::kContainsOp:
    case Opcode::kPopJumpIfFalse:
    case Opcode::kPopJumpIfTrue:
    case Opcode::kPopJumpIfNone:
    case Opcode::kPopJumpIfNotNone:
    case Opcode::kEndSend:
    case Opcode::kCleanupThrow:
    case Opcode::kReturnValue:
    case Opcode::kListAppend:
    case Opcode::kSetAdd:
    case Opcode::kListExtend:
    case Opcode::kSetUpdate:
    case Opcode::kDictUpdate:
    case Opcode::kDictMerge:
    case Opcode::kSetFunctionAttribute:
    case Opcode::kImportName:
    case Opcode::kImportStar:
    case Opcode::kPopExcept:
    case Opcode::kReraise:
    case Opcode::kPrepReraiseStar:
      return -1;

    case Opcode::kStoreAttr:
    case Opcode::kDeleteSubscr:
    case Opcode::kBinarySlice:
    case Opcode::kMapAdd:
    case Opcode::kMatchClass:
      return -2;

    case Opcode::kStoreSubscr:
      return -3;
    case Opcode::kStoreSlice:
      return -4;

    case Opcode::kLoadGlobal:
      return 1 + (arg & 1);
    case Opcode::kLoadSuperAttr:
      return -2 + (arg & 1);
    case Opcode::kJumpIfFalseOrPop:
    case Opcode::kJumpIfTrueOrPop:
      return jump ? 0 : -1;
    case Opcode::kForIter:
      return jump ? -1 : 1;
    case Opcode::kBuildTuple:
    case Opcode::kBuildList:
    case Opcode::kBuildSet:
    case Opcode::kBuildString:
      return 1 - arg;
    case Opcode::kBuildMap:
      return 1 - 2 * arg;
    case Opcode::kBuildConstKeyMap:
      return -arg;
    case Opcode::kBuildSlice:
      return arg == 3 ? -2 : -1;
    case Opcode::kFormatValue:
      return (arg & 4) != 0 ? -1 : 0;
    case Opcode::kUnpackSequence:
      return arg - 1;
    case Opcode::kUnpackEx:
      return (arg & 0xFF) + (arg >> 8);
    case Opcode::kMakeFunction:
      return make_function_effect(arg);
    case Opcode::kCall:
      return -arg - 1;
    case Opcode::kCallKw:
      return -arg - 2;
    case Opcode::kCallFunctionEx:
      return -2 - (arg & 1);
    case Opcode::kRaiseVarargs:
      return -arg;

    case Opcode::kUnsupported: {
      const int effect = PyCompile_OpcodeStackEffectWithJump(instruction.raw, arg, jump ? 1 : 0);
      return effect == PY_INVALID_STACK_EFFECT ? 0 : effect;
    }
  }
  BRAZE_UNREACHABLE("opcode ", static_cast<int>(instruction.op));
}

std::vector<int> stack_depths(const DecodedCode& code) { return DepthWalk(code).run(); }

}  // namespace braze::cpython
