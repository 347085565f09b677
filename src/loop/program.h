// A lowered graph before and after fusion: buffers, kernels and extern calls in execution order.
#pragma once

#include <optional>
#include <variant>

#include "graph/graph.h"
#include "loop/ir.h"
#include "target/target.h"

namespace braze::loop {

struct Buffer {
  enum class Kind : uint8_t { kInput, kComputed, kExtern, kView };
  Kind kind = Kind::kComputed;
  graph::TensorType type;    // eager's strides; offset only meaningful for kView (from base)
  int input = -1;            // kInput: index of the graph input
  int base = -1;             // kView: buffer whose memory it shares
  bool by_value = false;     // kInput: kernels are given its only element (BufferParam)
  sym::Int view_offset = 0;  // kView: elements from base's element 0
  const graph::Value* value = nullptr;  // the graph value it holds, for names in dumps
};

struct ExternCall {
  std::string op;
  std::vector<graph::BasicArgument<int>> args;  // tensors as buffer numbers
  std::vector<int> results;                     // buffer numbers, -1: undefined or unused
  graph::OriginId origin = -1;
  graph::Effects effects;
};

struct ScheduledKernel {
  Kernel kernel;
  graph::OriginId origin = -1;
};

using Item = std::variant<ScheduledKernel, ExternCall>;

struct Program {
  ExprPool pool;
  std::vector<Buffer> buffers;
  std::vector<Item> items;
  std::vector<int> outputs;                    // buffer numbers
  std::vector<std::pair<int, int>> mutations;  // (input buffer, source buffer), after all items
  std::vector<graph::Origin> origins;
  std::shared_ptr<sym::ExprArena> arena;  // of sizes; null where none is symbolic
};

std::string to_string(const Program& program);

// Lowers a functionalised graph (no op mutates). Define-by-run: each value is a function from index
// expressions to an element expression; pointwise, view, indexing and concatenation ops compose
// without being stored, a value is realised (gets a kernel that stores it) where it is a reduction,
// a graph output, an operand of an extern call, or has several users. Kernels that come out store
// one value each; fusing them is the scheduler's business. An op without a lowering, and any value
// of a dtype or device outside the code generator's (f32, f64, integers and bool on one device of
// the target's type; f16 and bf16 as storage), is an ExternCall.
//
// Sizes may be symbolic: kernels are then right for all values of the symbols. What is not known of
// them (whether a size is zero, say) makes an op an ExternCall.
//
// `deterministic`: what is added up in computed places on a GPU is an ExternCall, which adds up in
// a fixed order or raises (torch.use_deterministic_algorithms).
Program lower(const graph::Graph& graph, const target::Target& target, bool deterministic = false);

// A graph of elementwise ops as a single kernel over the sizes of its first input, to which all
// outputs broadcast: a store for each output, in order, of an expression that stores nothing on the
// way. Nothing where that cannot be.
std::optional<Program> lower_elements(const graph::Graph& graph, const target::Target& target);

// The type of the devices that kernels for this target run on.
graph::Device::Type device_type(const target::Target& target);

// Runs a kernel on plain memory, one element at a time: the reference for code generators and for
// the scheduler. `params[i]` is the address of element 0 of parameter i, `symbols[i]` the value of
// symbol i. False: a kCheckIndex failed; what was stored until then stays. f32 sums are accumulated
// in double.
[[nodiscard]] bool interpret(const Kernel& kernel, std::span<void* const> params,
                             std::span<const int64_t> symbols = {});

// Checks buffer numbers, that a buffer is defined before it is read, and every kernel.
void verify(const Program& program);

}  // namespace braze::loop
