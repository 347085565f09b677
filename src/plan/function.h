// One function of a compiled module (module.h) as plain data: slots, and steps that work on them.
//
// Slots [0, input_count) are the function's inputs, bound by the caller on each call. The other
// slots are defined by steps. Step order is execution order.
//
// A function of control steps runs others of its module (module.h): the parts of a graph between
// two numbers that are read from data, the branches and loop bodies of control flow. It has neither
// kernels nor memory of its own: its slots are inputs and kExtern.
//
// A function with symbols is for all values that they may have: sizes, strides, offsets, arguments
// of extern calls, extents and grains are expressions over them, and what follows from those
// (places and sizes in memory) is not there yet. `Binder` (binder.h) works out the numbers for a
// call.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "graph/argument.h"
#include "graph/graph.h"
#include "graph/types.h"
#include "sym/condition.h"
#include "sym/expr.h"

namespace braze::plan {

using SlotId = int32_t;
using Argument = graph::BasicArgument<SlotId>;

enum class SlotKind : uint8_t {
  kInput,   // the caller's tensor
  kArena,   // [byte_offset, byte_offset + bytes) of the function's arena; reused by liveness
  kOutput,  // freshly allocated by the runtime on each call, on the device of its type, handed to
            // the user (steps write to it)
  kExtern,  // defined by an ExternStep that allocates its own result
  kView,    // shares the memory of `base`: type.strides, byte_offset relative to base's element 0
};

struct Slot {
  SlotKind kind = SlotKind::kInput;
  graph::TensorType type;   // as eager would have it; strides in elements
  int64_t byte_offset = 0;  // kArena: place in the arena (64-byte aligned); kView: from base's data
  int64_t bytes = 0;        // kArena, kOutput: extent that must be backed by memory
  SlotId base = -1;         // kView; kExtern: the slot whose memory the op's result is a view of
  // kArena with symbols: the slot whose place this one takes over; -1: it has its own. A kView's
  // place is then its type's offset.
  SlotId place = -1;
  // kInput: which float of the call it is, of type f64[], which the caller gives by value; -1: a
  // tensor.
  int32_t number = -1;
};

// Where the value of symbol i comes from, and what it may be.
struct Symbol {
  using Kind = graph::SymbolBinding::Kind;
  std::string name;
  int64_t hint = 0;
  int64_t low = 0, high = 0;  // both included
  Kind kind = Kind::kSize;
  SlotId input = -1;  // kSize, kStride
  int32_t index = 0;  // of the dimension; kScalar: of the integer
};

// A kernel on a CPU:
//   extern "C" int64_t name(void* const* args, const int64_t* sizes, int64_t begin, int64_t end);
// args[i] is the address of element 0 of slot args[i]; sizes are those of the kernel. The work [0,
// extent) is split among threads in chunks of at least `grain`; begin..end is one chunk. With
// extent 0 (an empty tensor) the kernel must not be called. A non-zero result is a failure (an
// index out of range).
struct Chunks {
  sym::Int extent = 1;
  sym::Int grain = 1;
  friend bool operator==(const Chunks&, const Chunks&) = default;
};

// A kernel on a GPU:
//   extern "C" __global__ void name(T0* arg0, T1* arg1, ..., long long size0, ...);
// It takes the addresses of its slots (of a slot that is a number, the number itself) and its
// sizes, one by one. Without blocks (an empty tensor) it must not be launched.
struct Grid {
  std::array<sym::Int, 3> blocks = {1, 1, 1};
  std::array<sym::Int, 3> threads = {1, 1, 1};  // of a block
  sym::Int shared_bytes = 0;  // of a block, beside what the kernel declares itself
  friend bool operator==(const Grid&, const Grid&) = default;
};

using Launch = std::variant<Chunks, Grid>;

// One call of a compiled kernel.
struct KernelStep {
  int32_t kernel = 0;  // index into Function::kernels
  std::vector<SlotId> args;
  Launch launch;
  graph::OriginId origin = -1;
};

// A call through PyTorch's dispatcher, below autograd. What a result slot means:
//   * kExtern: the tensor that the op returns is kept in the slot until its FreeStep. It may be a
//     view of an argument (view ops): it shares the argument's memory, as in eager.
//   * kArena, kOutput: the value lands in that memory, with the slot's sizes and strides, through
//     the op's out= overload where it has one that keeps those strides, else by a copy.
//   * a slot that is an argument of the same step (in-place and out= ops, Backend::kEager): the op
//     wrote to that argument and returned it; the slot keeps its tensor.
//   * -1: undefined or unused.
struct ExternStep {
  std::string op;  // "aten.addmm"
  std::vector<Argument> args;
  std::vector<SlotId> results;
  graph::OriginId origin = -1;
};

// Copies slot `source` into the memory of slot `target` (same sizes, any strides): input mutations.
// `target` is an input or a view of one.
struct CopyStep {
  SlotId target = -1;
  SlotId source = -1;
};

// The tensor of a kExtern slot is no longer needed, nor are kView slots over it.
struct FreeStep {
  SlotId slot = -1;
};

// Another function of the module, and what it is given as inputs, in order: slots, or, in a loop,
// the carried tensor k, written as -1 - k.
struct Callee {
  int32_t function = -1;
  std::vector<SlotId> args;
};

// What the function gives, in order, is kept in `results`.
struct CallStep {
  Callee callee;
  std::vector<SlotId> results;
};

// Calls `yes` if the only element of `predicate` is true, else `no`.
struct BranchStep {
  SlotId predicate = -1;
  Callee yes, no;
  std::vector<SlotId> results;
};

// As long as the only element of `condition`'s output is true, `body` gives new values for the
// carried tensors. The results are memory of their own, also where the body never ran.
struct LoopStep {
  Callee condition, body;
  std::vector<SlotId> carried, results;
};

// The symbol gets its value: the slot's size in dimension `dim`, or its only element (dim -1). One
// outside of the symbol's range is a failure.
struct ReadStep {
  SlotId slot = -1;
  int32_t dim = -1;
  int32_t symbol = -1;
};

// Sizes and strides of what the slot holds are other than its type's: a failure.
struct ExpectStep {
  SlotId slot = -1;
};

// The condition does not hold: a failure.
struct AssertStep {
  sym::Condition condition;
};

using Step = std::variant<KernelStep, ExternStep, CopyStep, FreeStep, CallStep, BranchStep,
                          LoopStep, ReadStep, ExpectStep, AssertStep>;
bool is_control(const Step& step);  // CallStep and those behind it in the list
// Every slot that a step names, its results last; carried tensors (-1 - k) and unused results are
// left out.
std::vector<SlotId> slots_of(const Step& step);

// What a launch needs to know of a kernel.
struct KernelSignature {
  std::string name;             // symbol of the code object
  int32_t code = 0;             // index into Module::code
  std::vector<bool> written;    // by parameter: whether the kernel stores to it
  std::vector<sym::Int> sizes;  // what it is given as `sizes`
};

// What a failure of a step means. The compiler asks for the call to be run again, in eager, which
// raises the user's exception at its place, or by PyTorch's operators (a backward): nothing that
// the user sees has changed by then, or it is put back. kRaise is for who runs a module where there
// is nothing to run again. Kernels of a GPU do not fail: they check nothing.
enum class OnFailure : uint8_t { kRunEager, kRaise };

struct Function {
  OnFailure on_failure = OnFailure::kRunEager;
  std::vector<Slot> slots;
  int32_t input_count = 0;
  graph::Device device;  // where its kernels run and its arena lies
  int64_t arena_bytes = 0;
  std::vector<Step> steps;
  // An output is a slot; an output that is an input itself names the input's slot, a view of an
  // input is a kView slot.
  std::vector<SlotId> outputs;
  std::vector<KernelSignature> kernels;
  std::vector<graph::Origin> origins;
  std::vector<Symbol> symbols;            // symbol i of the arena; empty: all sizes are numbers
  std::shared_ptr<sym::ExprArena> arena;  // of the expressions
  std::vector<sym::Int> limits;           // must fit 32 bits, or the function does not hold
  // Of a module's first function: conditions on the symbols of a call, beside their ranges, that
  // the compiled code relies on. Where one does not hold the module must not run.
  std::vector<sym::Condition> conditions;

  bool is_symbolic() const { return !symbols.empty(); }
  bool has_control() const;
};

// For people:
//   function(s0: f32[4, 8], s1: f32[8]) arena 128 bytes {
//     s2: arena[0, 128) f32[4, 8]
//     s3: output f32[4, 8]
//     s2 = aten.mm(s0, s0)
//     kernel fused_add(s2, s1, s3) extent 4 grain 1      // model.py:12 forward
//     return s3
//   }
std::string to_string(const Function& function);

// By symbol: whether an expression of a slot, a kernel or a step names it.
std::vector<bool> used_symbols(const Function& function);
// The slot whose memory a kView slot shares; any other slot is its own root.
SlotId root_of(const Function& function, SlotId slot);

// Throws InternalError, naming the step, unless:
//   * slot numbers are in range; inputs come first; a base has a smaller number, and a kView lies
//     inside a kArena or kOutput base;
//   * arena slots are 64-byte aligned, inside the arena, on the function's device, and as large as
//     their type;
//   * every slot is defined before it is used and not used after its FreeStep; only kExtern slots
//     are freed, and no output is;
//   * arena slots that are live at the same time do not overlap (a view keeps its base alive).
//     Slots of one kernel call may start at the same byte when one dies there and the other is born
//     there (in-place reuse);
//   * outputs are not in the arena, and neither is what they are views of;
//   * kernel calls have one argument per parameter, on the function's device, and the launch that
//     it takes; copies go to inputs, origins exist.
// A function with symbols is checked as it is bound to its hints.
void verify(const Function& function);

}  // namespace braze::plan
