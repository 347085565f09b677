// The version-free instruction set that code objects of 3.11 to 3.13 are decoded to.
//
// `arg` has the meaning given here on every version. Superinstructions are split, caches and
// EXTENDED_ARG dropped, jump targets are indices of decoded instructions. Stack effects are written
// bottom to top: ( before -- after ).
#pragma once

#include <cstdint>

namespace braze::cpython {

// One table, a line each.
// clang-format off
#define BRAZE_OPCODES(X)                                                                          \
  X(Nop)                 /* also RESUME, PRECALL, CACHE */                                        \
  X(PopTop)              /* (a -- ) */                                                            \
  X(PushNull)            /* ( -- NULL) */                                                         \
  X(Copy)                /* copy of the arg-th from the top, 1-based */                           \
  X(Swap)                /* swap top with the arg-th from the top */                              \
  X(LoadConst)           /* co_consts[arg] */                                                     \
  X(LoadFast)            /* locals[arg]; UnboundLocalError if unset; 3.13: also for cell objects */ \
  X(LoadFastAndClear)    /* locals[arg] or NULL, then unset (inlined comprehensions) */           \
  X(StoreFast)           /* (a -- ); NULL is stored as unset */                                   \
  X(DeleteFast)                                                                                   \
  X(MakeCell)            /* locals[arg] becomes a cell holding its value */                       \
  X(CopyFreeVars)        /* the closure's arg cells into the last locals */                       \
  X(LoadClosure)         /* the cell object locals[arg] */                                        \
  X(LoadDeref)           /* contents of the cell locals[arg] */                                   \
  X(LoadFromDictOrDeref) /* (mapping -- value); 3.11 LOAD_CLASSDEREF without the mapping: see LoadClassDeref */ \
  X(LoadClassDeref)      /* 3.11 */                                                               \
  X(StoreDeref)                                                                                   \
  X(DeleteDeref)                                                                                  \
  X(LoadGlobal)          /* co_names[arg >> 1]; arg & 1: pushes NULL too, see `null_below` */     \
  X(LoadName)                                                                                     \
  X(StoreName)                                                                                    \
  X(DeleteName)                                                                                   \
  X(StoreGlobal)         /* co_names[arg] */                                                      \
  X(DeleteGlobal)                                                                                 \
  X(LoadFromDictOrGlobals)                                                                        \
  X(LoadLocals)                                                                                   \
  X(LoadAttr)            /* (o -- v), co_names[arg] */                                            \
  X(LoadMethod)          /* (o -- method self | NULL v), co_names[arg]; 3.13: v NULL */           \
  X(LoadSuperAttr)       /* (super cls self -- v) co_names[arg >> 2]; bit 0: method form, bit 1: two-argument super */ \
  X(StoreAttr)           /* (v o -- ) co_names[arg] */                                            \
  X(DeleteAttr)                                                                                   \
  X(BinarySubscr)                                                                                 \
  X(StoreSubscr)         /* (v o k -- ) */                                                        \
  X(DeleteSubscr)        /* (o k -- ) */                                                          \
  X(BinarySlice)         /* (o start stop -- v) */                                                \
  X(StoreSlice)          /* (v o start stop -- ) */                                               \
  X(UnaryPositive) X(UnaryNegative) X(UnaryNot) X(UnaryInvert)                                    \
  X(ToBool)              /* 3.13 */                                                               \
  X(BinaryOp)            /* arg: NB_ADD ... NB_INPLACE_XOR as in opcode.h */                      \
  X(CompareOp)           /* arg: Py_LT ...; bit 8 (256): convert the result to bool (3.13) */     \
  X(IsOp)                /* arg 1: is not */                                                      \
  X(ContainsOp)          /* (value container -- bool); arg 1: not in */                           \
  X(Jump)                /* target */                                                             \
  X(PopJumpIfFalse) X(PopJumpIfTrue) X(PopJumpIfNone) X(PopJumpIfNotNone)                         \
  X(JumpIfFalseOrPop) X(JumpIfTrueOrPop) /* 3.11 */                                               \
  X(GetIter)                                                                                      \
  X(ForIter)             /* (it -- it v); exhausted: on every version pops the iterator and jumps past END_FOR/POP_TOP */ \
  X(GetYieldFromIter)                                                                             \
  X(Send)                /* (receiver v -- receiver result); finished: replaces v by the result, jumps to target */ \
  X(EndSend)             /* (receiver v -- v); on 3.11 put in front of Send's target */            \
  X(CleanupThrow)                                                                                 \
  X(ReturnGenerator)                                                                              \
  X(YieldValue)                                                                                   \
  X(ReturnValue)                                                                                  \
  X(ReturnConst)         /* co_consts[arg] */                                                     \
  X(BuildTuple) X(BuildList) X(BuildSet) X(BuildMap) X(BuildConstKeyMap) X(BuildString)           \
  X(BuildSlice)                                                                                   \
  X(FormatValue)         /* arg as in 3.11: bits 0-1 conversion, bit 2: spec on the stack */      \
  X(ConvertValue)        /* 3.13: (v -- text) arg 1: str, 2: repr, 3: ascii */                    \
  X(ListAppend) X(SetAdd) X(MapAdd) X(ListExtend) X(SetUpdate) X(DictUpdate) X(DictMerge)         \
  X(ListToTuple)                                                                                  \
  X(UnpackSequence) X(UnpackEx)                                                                   \
  X(MakeFunction)        /* arg: flags as in 3.11 (1 defaults, 2 kwdefaults, 4 annotations, 8 closure); (… code -- f) */ \
  X(SetFunctionAttribute) /* 3.13: (value f -- f) arg: one flag */                                \
  X(KwNames)             /* co_consts[arg] for the next Call */                                   \
  X(Call)                /* (method self | NULL callable, args… -- result), arg: number of args */ \
  X(CallKw)              /* 3.13: as Call with the names tuple on top */                          \
  X(CallFunctionEx)      /* (NULL callable args [kwargs] -- result), arg & 1: kwargs */           \
  X(StopIterationError)  /* exception on top becomes RuntimeError (generators) */                 \
  X(ImportName) X(ImportFrom) X(ImportStar)                                                       \
  X(LoadAssertionError) X(LoadBuildClass)                                                         \
  X(BeforeWith) X(WithExceptStart)                                                                \
  X(PushExcInfo) X(PopExcept) X(CheckExcMatch) X(CheckEgMatch) X(Reraise) X(RaiseVarargs)         \
  X(PrepReraiseStar)                                                                              \
  X(GetLen) X(MatchMapping) X(MatchSequence) X(MatchKeys) X(MatchClass)                           \
  X(SetupAnnotations)                                                                             \
  X(Unsupported)         /* async, type parameters, printing at the prompt: named by `raw` */

// clang-format on

enum class Opcode : uint8_t {
#define X(name) k##name,
  BRAZE_OPCODES(X)
#undef X
};
const char* to_string(Opcode opcode);

}  // namespace braze::cpython
