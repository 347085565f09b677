// The compiled artefact as plain data: what caches store and the runtime loads.
//
// A plan works on numbered slots. Slots [0, inputs.size()) are the graph's inputs, bound by the
// caller on each call. The other slots are defined by steps. Step order is execution order.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "graph/argument.h"
#include "graph/graph.h"
#include "graph/types.h"

namespace braze::plan {

using SlotId = int32_t;
using Argument = graph::BasicArgument<SlotId>;

enum class SlotKind : uint8_t {
  kInput,   // the caller's tensor
  kArena,   // [offset, offset + bytes) of the executable's arena; reused by liveness
  kOutput,  // freshly allocated by the runtime on each call, handed to the user (steps write to it)
  kExtern,  // defined by an ExternStep that allocates its own result
  kView,    // shares the memory of `base`: type.strides, byte_offset relative to base's element 0
};

struct Slot {
  SlotKind kind = SlotKind::kInput;
  graph::TensorType type;   // as eager would have it; strides in elements
  int64_t byte_offset = 0;  // kArena: place in the arena (64-byte aligned); kView: from base's data
  int64_t bytes = 0;        // kArena, kOutput: extent that must be backed by memory
  SlotId base = -1;         // kView
};

// One call of a compiled kernel:
//   extern "C" int64_t name(void* const* args, const int64_t* sizes, int64_t begin, int64_t end);
// args[i] is the address of element 0 of slot args[i]. The work [0, extent) is split among threads
// in chunks of at least `grain`; begin..end is one chunk. A non-zero result means that the call must
// be run in eager instead (an index out of range: eager raises the user's exception).
struct KernelStep {
  int32_t kernel = 0;  // index into Plan::kernels
  std::vector<SlotId> args;
  int64_t extent = 1;
  int64_t grain = 1;
  graph::OriginId origin = -1;
};

// A call through PyTorch's dispatcher, below autograd. With `out` the op is called through its
// out= overload where it has one, else the results are copied into the slots.
struct ExternStep {
  std::string op;  // "aten.addmm"
  std::vector<Argument> args;
  std::vector<SlotId> results;  // -1: undefined or unused
  graph::OriginId origin = -1;
};

// Copies slot `source` into slot `target` (same sizes, any strides): input mutations.
struct CopyStep {
  SlotId target = -1;
  SlotId source = -1;
};

// The memory of an extern result or of an output candidate is no longer needed.
struct FreeStep {
  SlotId slot = -1;
};

using Step = std::variant<KernelStep, ExternStep, CopyStep, FreeStep>;

struct Kernel {
  std::string name;
};

struct Plan {
  std::vector<Slot> slots;
  int32_t input_count = 0;
  int64_t arena_bytes = 0;
  std::vector<Step> steps;
  // A graph output is a slot; an output that is an input itself names the input's slot, a view of
  // an input is a kView slot.
  std::vector<SlotId> outputs;
  std::vector<Kernel> kernels;
  std::string source;       // one C++ translation unit with all kernels; empty: no kernels
  std::vector<graph::Origin> origins;
};

std::string to_string(const Plan& plan);  // for people
// Exact binary form with a version and a checksum; `deserialize` throws UserError on anything
// damaged or from another version.
std::string serialize(const Plan& plan);
Plan deserialize(std::string_view bytes);
// Checks slot numbers, definition before use, arena ranges of live slots not overlapping.
void verify(const Plan& plan);

}  // namespace braze::plan
