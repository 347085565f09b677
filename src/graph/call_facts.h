// What a trace asks of an operator that it meets and that neither the operator's schema nor
// op_list.inc says. Operators with and without an `OpKind` have such facts; call_facts.inc is the
// one list of them.
#pragma once

#include <cstdint>
#include <string_view>

namespace braze::graph {

enum CallFact : uint32_t {
  // How a call is recorded, where PyTorch's tags and kernels do not tell. At most one of these.
  kIsOneNode = 1 << 0,       // it is recorded as it is
  kAsksCpuKernel = 1 << 1,   // as it is; the function for metadata gives other strides than the CPU
  kTakesLiteral = 1 << 2,    // argument 0 is a tensor that was made from Python's numbers
  kResizes = 1 << 3,         // it gives argument 0 the sizes in argument 1
  kReadsMetadata = 1 << 4,   // it looks at metadata alone, so that it runs and is not recorded
  kReadsData = 1 << 5,       // it reads data, which PyTorch's tags do not say
  kLoopsOverLists = 1 << 6,  // on the CPU it is one call for each element of its lists
  kReadsNumber = 1 << 7,     // its result is the number in argument 0

  // What its arguments are.
  kNamesOtherDims = 1 << 8,        // its dimensions may be named twice, or not be there yet
  kTakesMasks = 1 << 9,            // argument 1 is a list of indices, any of which may be a mask
  kPuts = 1 << 10,                 // argument 2 is put at the places that argument 1 names
  kTakesCpuIndices = 1 << 11,      // its indices or lengths may be on the CPU, argument 0 elsewhere
  kMovesBetweenDevices = 1 << 12,  // argument 1 is copied to the device of argument 0
  kChooses = 1 << 13,       // arguments 1 and 2 become elements; a number in their place as well
  kFills = 1 << 14,         // elements become the number in its last argument
  kNegatesAlpha = 1 << 15,  // `alpha` is multiplied by -1 before it is converted
  kCountsFromMemory = 1 << 16,  // its offset counts from where the memory of argument 0 begins

  // What its kernels refuse, or do otherwise than its schema says.
  kNotForIntegers = 1 << 17,  // operands of whole numbers or bools are refused
  kNotForBools = 1 << 18,
  kOfIntegers = 1 << 19,        // operands of floats are refused
  kSlidesWindow = 1 << 20,      // a convolution or a pool, whose window needs a place
  kChoosesByDevice = 1 << 21,   // its composite kernel calls what the operands' device has
  kSeedOnCpu = 1 << 22,         // results from 2 on are seed and offset, on the CPU
  kKeepsUnknownSize = 1 << 23,  // only its library knows the size of what it keeps for a backward
  kGivesLayout = 1 << 24,       // PyTorch's composites call it for another layout of argument 0
  kAddsInPlace = 1 << 25,       // argument 1, times argument 2, is added to argument 0
  kTrustsSizes = 1 << 26,       // with tensors of other sizes than it gets, its kernel may crash
};

struct CallFacts {
  uint32_t facts = 0;                 // of CallFact
  const char* why_refused = nullptr;  // no call of it is traced; null: calls are
};

// Of an op's name with its overload: "aten.add.Tensor".
CallFacts find_call_facts(std::string_view name);
inline bool has_call_fact(std::string_view name, CallFact fact) {
  return (find_call_facts(name).facts & fact) != 0;
}

// The op whose schema says what this one, of the same arguments, does as well; empty: its own does.
std::string_view op_with_honest_schema(std::string_view name);

}  // namespace braze::graph
