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

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/types.h"
#include "plan/steps.h"
#include "sym/condition.h"
#include "sym/expr.h"

namespace braze::plan {

enum class SlotKind : uint8_t {
  kInput,   // the caller's tensor
  kArena,   // [byte_offset, byte_offset + bytes) of the function's arena; reused by liveness
  kOutput,  // memory of its own, freshly allocated by the runtime on each call, on the device of
            // its type: handed to the user, or freed by a step (steps write to it)
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

// What a launch needs to know of a kernel.
struct KernelSignature {
  std::string name;             // symbol of the code object
  int32_t code = 0;             // index into Module::code
  std::vector<bool> written;    // by parameter: whether the kernel stores to it
  std::vector<sym::Int> sizes;  // what it is given as `sizes`
  // By parameter: bytes of which its address is to be a multiple; empty: any addresses are good.
  std::vector<int32_t> alignment;
};

// What a failure of a step means. The compiler asks for the call to be run again, in eager, which
// raises the user's exception at its place, or by PyTorch's operators (a backward): nothing that
// the user sees has changed by then, or it is put back. kRaise is for who runs a module where there
// is nothing to run again. Kernels of a GPU do not fail: an index that they refuse ends the
// program's work on the device, as in eager.
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
//   * every slot is defined before it is used and not used after its FreeStep; arena slots, views,
//     floats and outputs are not freed;
//   * a kOutput slot is allocated once at most, before it is used;
//   * arena slots that are live at the same time do not overlap (a view keeps its base alive).
//     Slots of one kernel call may start at the same byte when one dies there and the other is born
//     there (in-place reuse);
//   * outputs are not in the arena, and neither is what they are views of;
//   * kernel calls have one argument per parameter, on the function's device, and the launch that
//     it takes; copies go to inputs, origins exist.
// A function with symbols is checked as it is bound to its hints.
void verify(const Function& function);

}  // namespace braze::plan
